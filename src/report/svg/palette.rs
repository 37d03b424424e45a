//! Colours of the pictures, each with its class and what it turns into on a dark page.
//!
//! The colours of lines are those of the pages (`report/assets/tokens.css`): a line is drawn in the colour of
//! its rank in the table of lines, in every picture. Every role has a colour of its own: `decorate` recognises
//! by it what plotters drew. A picture brings its own panel, so it can be read on any page; where the viewer
//! prefers dark, panel and ink change together. What is told apart by colour alone is told apart by people who
//! see colours differently too (a test looks with their eyes).

use std::fmt::Write as _;

use plotters::style::RGBColor;

/// A colour with its class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ink {
    /// As drawn, and as shown on a light page.
    pub(super) colour: RGBColor,
    /// On a dark page.
    pub(super) dark: RGBColor,
    /// Class of the elements drawn with it.
    pub(super) class: &'static str,
}

const fn rgb(hex: u32) -> RGBColor {
    RGBColor((hex >> 16) as u8, (hex >> 8) as u8, hex as u8)
}

const fn ink(class: &'static str, light: u32, dark: u32) -> Ink {
    Ink { colour: rgb(light), dark: rgb(dark), class }
}

pub(super) const PANEL: Ink = ink("panel", 0xff_ff_ff, 0x0d_11_17);
pub(super) const TEXT: Ink = ink("ink", 0x1f_23_28, 0xe6_ed_f3);
pub(super) const MUTED: Ink = ink("muted", 0x59_63_6e, 0x9d_a7_b3);
pub(super) const GRID: Ink = ink("grid", 0xd8_de_e4, 0x26_2c_36);
pub(super) const AXIS: Ink = ink("axis", 0x81_8b_98, 0x6e_76_81);
pub(super) const FREE: Ink = ink("free", 0xe6_ea_ef, 0x21_26_2d);
pub(super) const RESERVED: Ink = ink("reserved", 0x24_29_2f, 0xf0_f6_fc);
pub(super) const DEVICE: Ink = ink("device", 0x8c_4a_02, 0xf0_b0_72);
pub(super) const PEAK: Ink = ink("peak", 0x09_59_c8, 0x79_b8_ff);
pub(super) const OOM: Ink = ink("oom", 0xb3_26_1e, 0xff_8a_80);
pub(super) const STEP: Ink = ink("step", 0x6e_77_81, 0x8b_94_9e);
/// Lines without a colour of their own.
pub(super) const OTHER: Ink = ink("other", 0x9a_a4_af, 0x6e_76_81);
/// What has no line.
pub(super) const UNKNOWN: Ink = ink("unknown", 0xc1_c9_d2, 0x48_4f_58);
/// Freed, waits for a stream.
pub(super) const WAITING: Ink = ink("waiting", 0x7c_86_92, 0x7c_86_92);
/// Frames that are no line of the user's.
pub(super) const LIBRARY: Ink = ink("library", 0xe9_ed_f1, 0x24_2a_33);
/// What stands above a step's end, up to its peak.
pub(super) const ABOVE: Ink = ink("above", 0xd3_de_ea, 0x2a_36_46);
pub(super) const ALLOCATED: Ink = ink("allocated", 0x40_59_b0, 0x40_59_b0);
pub(super) const PENDING: Ink = ink("pending", 0x80_2f_66, 0x80_2f_66);
pub(super) const ROUNDING: Ink = ink("rounding", 0x8f_d0_f2, 0x8f_d0_f2);
pub(super) const STRANDED: Ink = ink("stranded", 0xd9_72_2e, 0xd9_72_2e);
pub(super) const OTHER_STREAM: Ink = ink("otherstream", 0xf3_d9_6b, 0xf3_d9_6b);
pub(super) const PRIVATE_POOL: Ink = ink("private", 0x18_94_68, 0x18_94_68);
pub(super) const RELEASABLE: Ink = ink("releasable", 0xd5_df_d0, 0x36_46_2e);

/// Lines by rank, the one that held most at the peak first. A line beyond is [`OTHER`].
pub(super) const BANDS: [Ink; 10] = [
    ink("b0", 0x33_22_88, 0x7b_6f_d0),
    ink("b1", 0x88_cc_ee, 0x88_cc_ee),
    ink("b2", 0xcc_66_77, 0xcc_66_77),
    ink("b3", 0xdd_cc_77, 0xdd_cc_77),
    ink("b4", 0x11_77_33, 0x11_77_33),
    ink("b5", 0xaa_44_99, 0xaa_44_99),
    ink("b6", 0x44_aa_99, 0x44_aa_99),
    ink("b7", 0x88_22_55, 0x88_22_55),
    ink("b8", 0x99_99_33, 0x99_99_33),
    ink("b9", 0x66_99_cc, 0x66_99_cc),
];

/// Every role that is no band.
pub(super) const ROLES: [Ink; 23] = [
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
    WAITING,
    LIBRARY,
    ABOVE,
    ALLOCATED,
    PENDING,
    ROUNDING,
    STRANDED,
    OTHER_STREAM,
    PRIVATE_POOL,
    RELEASABLE,
];

/// The colour of the line of `rank` in the table of lines; `None` is what has no line.
pub(super) fn of_rank(rank: Option<u32>) -> Ink {
    rank.map_or(UNKNOWN, |rank| BANDS.get(rank as usize).copied().unwrap_or(OTHER))
}

/// Whether text on `ink` is read best in white.
pub(super) fn takes_light_text(ink: Ink) -> bool {
    let RGBColor(red, green, blue) = ink.colour;
    let part = |value: u8, weight: f64| (f64::from(value) / 255.0).powf(2.2) * weight;
    part(red, 0.2126) + part(green, 0.7152) + part(blue, 0.0722) < 0.22
}

/// The hatch of what waits for a stream: lines that are seen on any colour.
pub(super) const HATCH: &str = "<defs><pattern id=\"memlab-hatch\" width=\"6\" height=\"6\" \
    patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect class=\"panel\" width=\"3\" height=\"6\" \
    fill=\"#FFFFFF\"/></pattern></defs>";

const FIXED: &str = "\
text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;font-variant-numeric:tabular-nums}
.peak{stroke-dasharray:3 3}text.peak,text.oom{font-weight:600}
.device{stroke-dasharray:9 4}
text.onlight{fill:#1f2328}text.ondark{fill:#fff}
";

/// The style sheet of a picture: the fixed part, and the colours of a dark page. `fills` are roles whose elements
/// say nothing but their class.
pub(super) fn style(fills: &[Ink]) -> String {
    let mut css = FIXED.to_owned();
    for ink in fills {
        push(&mut css, format_args!("rect.{}{{fill:{}}}", ink.class, hex(ink.colour)));
    }
    css.push_str(
        "rect.line{fill:none}rect.hatch{fill:url(#memlab-hatch);fill-opacity:.75;pointer-events:none}",
    );
    css.push_str("rect.veil{fill-opacity:.6;pointer-events:none}");
    if !fills.is_empty() {
        for ink in [TEXT, MUTED, OOM] {
            push(&mut css, format_args!("text.{}{{fill:{}}}", ink.class, hex(ink.colour)));
        }
    }
    css.push_str("\n@media (prefers-color-scheme: dark){\n");
    for ink in ROLES.iter().chain(&BANDS).filter(|ink| ink.colour != ink.dark) {
        let (class, dark) = (ink.class, hex(ink.dark));
        push(
            &mut css,
            format_args!(
                "rect.{class},polygon.{class},text.{class}{{fill:{dark}}}line.{class},polyline.{class},rect.{class}.line\
                 {{stroke:{dark}}}\n"
            ),
        );
    }
    css.push_str("rect.line{fill:none}}\n");
    css
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("writing to a string does not fail");
}

/// The colour as plotters writes it.
pub(super) fn hex(colour: RGBColor) -> String {
    format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2)
}

#[cfg(test)]
#[path = "palette_tests.rs"]
mod tests;
