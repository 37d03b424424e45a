//! A picture that is no chart, element by element: panel, head, boxes, texts.
//!
//! Owns how elements are written (short numbers, a class instead of a colour, tooltips, escaping) and the head that
//! all pictures share. Charts are plotters' (`draw`); what stands where is the caller's.

use std::fmt::Write as _;

use super::legend::{self, Row};
use super::palette::{
    AXIS, BANDS, FREE, HATCH, Ink, LIBRARY, MUTED, OTHER, PANEL, TEXT, UNKNOWN, hex, style,
};
use super::picture::{LEGEND_X, SIDE, WIDTH};
use crate::report::escape::{keep_start, terminal, xml};

/// A rectangle in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Area {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Where a text is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    Start,
    End,
}

/// What every picture says about itself.
pub(super) struct Head<'a> {
    pub(super) title: &'a str,
    pub(super) subtitle: &'a str,
    pub(super) description: &'a str,
}

/// The size of every text but the head's, in pixels: 10 and more when the picture is 800 wide.
pub(super) const TEXT_SIZE: u32 = 13;

/// What fits below a title.
pub(super) const SUBTITLE_CHARACTERS: usize = 132;

/// Elements in the making. Its height is known at the end.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    body: String,
}

impl Sheet {
    fn push(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.body.write_fmt(arguments).expect("writing to a string does not fail");
    }

    /// Opens a group moved to `(x, y)`; a tooltip of its own elements goes before `title`.
    pub(super) fn open(&mut self, x: f64, y: f64, title: &str) {
        self.push(format_args!("<g transform=\"translate({},{})\">", Px(x), Px(y)));
        self.tooltip(title);
        self.body.push('\n');
    }

    pub(super) fn close(&mut self) {
        self.body.push_str("</g>\n");
    }

    fn tooltip(&mut self, title: &str) {
        if !title.is_empty() {
            self.push(format_args!("<title>{}</title>", xml(title)));
        }
    }

    /// A box filled with `ink`.
    pub(super) fn fill(&mut self, ink: Ink, area: Area, title: &str) {
        self.rect(ink.class, "", area, title);
    }

    /// The hatch of what waits, over what was drawn there.
    pub(super) fn hatch(&mut self, area: Area) {
        self.rect("hatch", "", area, "");
    }

    /// Lightens the part of a block that nobody asked for.
    pub(super) fn veil(&mut self, area: Area) {
        self.rect("panel veil", "", area, "");
    }

    /// The edge of a box, broken or not.
    pub(super) fn edge(&mut self, ink: Ink, area: Area, broken: bool) {
        let broken = if broken { " stroke-dasharray=\"4 3\"" } else { "" };
        let class = format!("{} line", ink.class);
        self.rect(&class, &format!(" fill=\"none\" stroke=\"{}\"{broken}", hex(ink.colour)), area, "");
    }

    fn rect(&mut self, class: &str, attributes: &str, area: Area, title: &str) {
        self.body.push_str("<rect");
        if !class.is_empty() {
            self.push(format_args!(" class=\"{class}\""));
        }
        for (name, value) in [("x", area.x), ("y", area.y)] {
            if value != 0.0 {
                self.push(format_args!(" {name}=\"{}\"", Px(value)));
            }
        }
        let (width, height) = (Px(area.width), Px(area.height));
        self.push(format_args!(" width=\"{width}\" height=\"{height}\"{attributes}"));
        if title.is_empty() {
            self.body.push_str("/>\n");
        } else {
            self.body.push('>');
            self.tooltip(title);
            self.body.push_str("</rect>\n");
        }
    }

    /// A text of [`TEXT_SIZE`] whose base line is `y`, escaped here.
    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), hold: Hold, text: &str) {
        let hold = if hold == Hold::End { " text-anchor=\"end\"" } else { "" };
        let (x, y, text) = (Px(x), Px(y), xml(text));
        self.push(format_args!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\"{hold}>{text}</text>\n"));
    }

    /// Draws `rows` beside the picture, from `y` on, and returns the y where they end.
    pub(super) fn legend(&mut self, mut y: f64, heading: &str, rows: &[Row]) -> f64 {
        let x = f64::from(LEGEND_X);
        self.text(MUTED.class, (x, y + 13.0), Hold::Start, heading);
        y += 24.0;
        for row in rows {
            let swatch = Area { x, y: y + 1.0, width: 14.0, height: 11.0 };
            match row.swatch {
                legend::Swatch::Hatch => {
                    self.fill(row.ink, swatch, "");
                    self.hatch(swatch);
                    self.edge(AXIS, swatch, false);
                }
                legend::Swatch::Edge => self.edge(row.ink, swatch, true),
                legend::Swatch::None => {}
                _ => self.fill(row.ink, swatch, ""),
            }
            let name = legend::name(&row.name);
            self.text(TEXT.class, (x + 22.0, y + 11.5), Hold::Start, &name);
            self.text(MUTED.class, (x + legend::BYTES_END, y + 27.0), Hold::End, &row.bytes);
            self.text(MUTED.class, (x + legend::BYTES_END + 12.0, y + 27.0), Hold::Start, &row.note);
            y += 34.0;
        }
        y
    }

    /// The whole document of `height` pixels.
    pub(super) fn finish(self, head: &Head<'_>, height: f64) -> String {
        let fills: Vec<Ink> = [PANEL, FREE, OTHER, UNKNOWN, LIBRARY].into_iter().chain(BANDS).collect();
        let (title, description, style) = (xml(head.title), xml(head.description), style(&fills));
        let mut whole = Self::default();
        whole.push(format_args!(
            "<svg role=\"img\" aria-label=\"{title}\" width=\"{WIDTH}\" height=\"{0}\" viewBox=\"0 0 {WIDTH} {0}\" \
             xmlns=\"http://www.w3.org/2000/svg\" font-size=\"{TEXT_SIZE}\">\n<title>{title}</title>\n\
             <desc>{description}</desc>\n<style>\n{style}</style>\n{HATCH}\n",
            Px(height.ceil())
        ));
        whole.fill(PANEL, Area { width: f64::from(WIDTH), height: height.ceil(), ..Area::default() }, "");
        let side = f64::from(SIDE);
        for (class, size, y, text) in [
            (TEXT.class, 19, 29, keep_start(&terminal(head.title), 90)),
            (MUTED.class, TEXT_SIZE, 50, keep_start(&terminal(head.subtitle), SUBTITLE_CHARACTERS)),
        ] {
            let text = xml(&text);
            whole.push(format_args!(
                "<text class=\"{class}\" x=\"{}\" y=\"{y}\" font-size=\"{size}\">{text}</text>\n",
                Px(side)
            ));
        }
        whole.body.push_str(&self.body);
        whole.body.push_str("</svg>\n");
        whole.body
    }
}

/// A picture under [`MOST_BYTES`] whatever its names: `draw` is handed the most characters that a name in a tooltip
/// may have, fewer and fewer until the picture is small enough.
pub(super) fn fitted(draw: impl Fn(usize) -> String) -> String {
    const LIMITS: [usize; 4] = [120, 48, 16, 0];
    let mut svg = String::new();
    for limit in LIMITS {
        svg = draw(limit);
        if svg.len() < MOST_BYTES {
            break;
        }
    }
    svg
}

/// What a browser and a code host show without hesitation, less a little.
pub(super) const MOST_BYTES: usize = 480_000;

/// A length as short as it can be written: two decimals at most.
struct Px(f64);

impl std::fmt::Display for Px {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = format!("{:.2}", self.0);
        let text = text.trim_end_matches('0').trim_end_matches('.');
        f.write_str(if text == "-0" { "0" } else { text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_short() {
        let text = |value: f64| Px(value).to_string();
        assert_eq!(
            [text(0.0), text(-0.001), text(12.5), text(3.0), text(1.0 / 3.0)],
            ["0", "0", "12.5", "3", "0.33"]
        );
        assert_eq!(text(100.0), "100");
    }

    #[test]
    fn what_comes_from_a_trace_is_text() {
        let mut sheet = Sheet::default();
        sheet.fill(OTHER, Area { width: 2.0, height: 1.0, ..Area::default() }, "</title><script>");
        sheet.text("ink", (1.0, 2.0), Hold::End, "a<b>\u{202e}");
        let head = Head { title: "\"t\"", subtitle: "<s>", description: "]]>" };
        let svg = sheet.finish(&head, 99.5);
        assert!(!svg.contains("<script") && !svg.contains("<b>") && !svg.contains("]]>"), "{svg}");
        assert!(svg.contains("aria-label=\"&quot;t&quot;\"") && svg.contains("height=\"100\""));
        assert!(svg.contains("<rect class=\"other\" width=\"2\" height=\"1\"><title>&lt;/title&gt;&lt;script&gt;</title></rect>"));
        assert!(svg.contains("text-anchor=\"end\">a&lt;b&gt;\\u{202e}</text>"));
    }

    #[test]
    fn names_give_way_until_the_picture_is_small() {
        assert_eq!(fitted(|limit| "x".repeat(limit * 10_000)).len(), 160_000);
        assert_eq!(fitted(|_| "short".to_owned()), "short");
    }
}
