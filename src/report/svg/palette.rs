//! Colours of the pictures, each with the class that a dark page restyles.
//!
//! Every role has a colour of its own: `decorate` recognises by it what plotters drew. A picture brings its
//! own panel, so it can be read on any page; where the viewer prefers dark, panel and ink change together.

use plotters::style::RGBColor;

/// A colour with its class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ink {
    /// As drawn, and as shown on a light page.
    pub(super) colour: RGBColor,
    /// Class of the elements drawn with it.
    pub(super) class: &'static str,
}

const fn ink(class: &'static str, red: u8, green: u8, blue: u8) -> Ink {
    Ink { colour: RGBColor(red, green, blue), class }
}

pub(super) const PANEL: Ink = ink("panel", 0xff, 0xff, 0xff);
pub(super) const TEXT: Ink = ink("ink", 0x1f, 0x23, 0x28);
pub(super) const MUTED: Ink = ink("muted", 0x59, 0x63, 0x6e);
pub(super) const GRID: Ink = ink("grid", 0xd8, 0xde, 0xe4);
pub(super) const AXIS: Ink = ink("axis", 0x81, 0x8b, 0x98);
pub(super) const FREE: Ink = ink("free", 0xe6, 0xea, 0xef);
pub(super) const RESERVED: Ink = ink("reserved", 0x24, 0x29, 0x2f);
pub(super) const DEVICE: Ink = ink("device", 0x8c, 0x4a, 0x02);
pub(super) const PEAK: Ink = ink("peak", 0x09, 0x59, 0xc8);
pub(super) const OOM: Ink = ink("oom", 0xcf, 0x22, 0x2e);
pub(super) const STEP: Ink = ink("step", 0x6e, 0x77, 0x81);
pub(super) const OTHER: Ink = ink("other", 0x9a, 0xa4, 0xaf);
pub(super) const UNKNOWN: Ink = ink("unknown", 0xc1, 0xc9, 0xd2);
pub(super) const ALLOCATED: Ink = ink("allocated", 0x4f, 0x7f, 0xb5);
pub(super) const PENDING: Ink = ink("pending", 0xb0, 0x7a, 0xb8);
pub(super) const ROUNDING: Ink = ink("rounding", 0xa3, 0xbd, 0xd8);
pub(super) const STRANDED: Ink = ink("stranded", 0xe0, 0x6c, 0x55);
pub(super) const OTHER_STREAM: Ink = ink("otherstream", 0xd8, 0x9c, 0x3e);
pub(super) const PRIVATE_POOL: Ink = ink("private", 0x5f, 0x96, 0xa3);
pub(super) const RELEASABLE: Ink = ink("releasable", 0x8f, 0xc0, 0x8a);

/// Bands of lines, bottom first; neighbours differ in brightness as well as in hue.
pub(super) const BANDS: [Ink; 12] = [
    ink("b0", 0x4e, 0x79, 0xa7),
    ink("b1", 0xf2, 0x8e, 0x2b),
    ink("b2", 0x3f, 0x8f, 0x5b),
    ink("b3", 0xed, 0xc9, 0x48),
    ink("b4", 0xa0, 0x63, 0x93),
    ink("b5", 0x76, 0xb7, 0xb2),
    ink("b6", 0x9c, 0x75, 0x5f),
    ink("b7", 0xff, 0x9d, 0xa7),
    ink("b8", 0x2f, 0x6f, 0x8f),
    ink("b9", 0xb6, 0xd0, 0x7a),
    ink("b10", 0x7b, 0x62, 0xc0),
    ink("b11", 0xd9, 0xb3, 0x8c),
];

/// Every role that is no band.
pub(super) const ROLES: [Ink; 20] = [
    PANEL,
    TEXT,
    MUTED,
    GRID,
    AXIS,
    FREE,
    RESERVED,
    DEVICE,
    PEAK,
    OOM,
    STEP,
    OTHER,
    UNKNOWN,
    ALLOCATED,
    PENDING,
    ROUNDING,
    STRANDED,
    OTHER_STREAM,
    PRIVATE_POOL,
    RELEASABLE,
];

/// The style sheet of a picture.
pub(super) const STYLE: &str = "\
text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif}
.peak{stroke-dasharray:3 3}text.peak,text.oom{font-weight:600}
.device{stroke-dasharray:9 4}
@media (prefers-color-scheme: dark){
.panel{fill:#0d1117}.ink{fill:#e6edf3}text.muted{fill:#9da7b3}text.step{fill:#9da7b3}
.grid{stroke:#262c36}.axis{stroke:#6e7681}.free{fill:#21262d}line.step,polyline.step{stroke:#8b949e}
polyline.reserved,line.reserved{stroke:#f0f6fc}
polyline.device,line.device{stroke:#f0b072}text.device{fill:#f0b072}
polyline.peak,line.peak{stroke:#79b8ff}text.peak{fill:#79b8ff}
polyline.oom,line.oom{stroke:#ff7b72}text.oom,polygon.oom{fill:#ff7b72}polygon.peak{fill:#79b8ff}
rect.other,polygon.other{fill:#6e7681}rect.unknown,polygon.unknown{fill:#484f58}
}
";

/// The colour as plotters writes it.
pub(super) fn hex(colour: RGBColor) -> String {
    format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_roles_share_a_colour() {
        let mut all: Vec<String> = ROLES.iter().chain(&BANDS).map(|ink| hex(ink.colour)).collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
