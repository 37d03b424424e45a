//! The legend: beside the plot, never on it, in the order of the stack from the top.
//!
//! Owns its rows, their height, and how names and figures stand in them: a name, and below it the bytes, ending at
//! one place in all rows, with a word on them.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::draw::{Canvas, Drawn, text};
use super::marks::MOST_STEPS;
use super::palette::{DEVICE, Ink, MUTED, STEP, TEXT};
use super::picture::{LEGEND_X, Note, Picture, TOP};
use super::sheet::TEXT_SIZE;
use crate::report::escape::{keep_start, short_name, terminal};
use crate::units::Count;

/// Height of a row: two lines of text.
pub(super) const ROW: i32 = 34;
/// Where the bytes of a row end, from the left edge of the legend.
pub(super) const BYTES_END: f64 = 84.0;
const TEXT_X: i32 = LEGEND_X + 22;
const NAME_CHARACTERS: usize = 34;
const NOTE_CHARACTERS: usize = 27;

/// What stands before a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Swatch {
    Band,
    Line(u32),
    /// A band under the hatch of what waits.
    Hatch,
    /// A broken edge.
    Edge,
    None,
}

/// A row of a legend.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) swatch: Swatch,
    pub(super) ink: Ink,
    pub(super) name: String,
    pub(super) bytes: String,
    pub(super) note: String,
}

impl Row {
    fn new(swatch: Swatch, ink: Ink, name: &str, note: &Note) -> Self {
        Self { swatch, ink, name: name.to_owned(), bytes: note.figure.clone(), note: note.text.clone() }
    }
}

/// A name as long as a row.
pub(super) fn name(name: &str) -> String {
    short_name(&terminal(name), NAME_CHARACTERS).into_owned()
}

/// Draws the legend of `picture`.
pub(super) fn draw(canvas: &Canvas<'_>, picture: &Picture<'_>) -> Drawn {
    for (index, row) in rows(picture).iter().enumerate() {
        draw_row(canvas, row, TOP + index as i32 * ROW)?;
    }
    Ok(())
}

/// How high the legend of `picture` is.
pub(super) fn height(picture: &Picture<'_>) -> i32 {
    rows(picture).len() as i32 * ROW
}

fn rows(picture: &Picture<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    if let Some(total) = picture.device_bytes {
        rows.push(Row::new(Swatch::Line(1), DEVICE, "size of the device", &Note::bytes(total, "")));
    }
    for curve in picture.curves.iter().rev() {
        rows.push(Row::new(Swatch::Line(curve.width), curve.ink, &curve.name, &curve.note));
    }
    for layer in picture.layers.iter().rev() {
        rows.push(Row::new(Swatch::Band, layer.ink, &layer.name, &layer.note));
    }
    let steps = picture.marks("step").len();
    if steps > 0 && steps <= MOST_STEPS {
        let all = picture.steps.max(steps as u64);
        let text = if all > steps as u64 { "some marked above the plot" } else { "begin above the plot" };
        let note = Note { figure: Count(all).to_string(), text: text.to_owned() };
        rows.push(Row::new(Swatch::Line(1), STEP, "steps", &note));
    }
    rows
}

fn draw_row(canvas: &Canvas<'_>, row: &Row, y: i32) -> Drawn {
    let x = LEGEND_X;
    if let Swatch::Line(width) = row.swatch {
        let style = row.ink.colour.stroke_width(width);
        canvas.draw(&PathElement::new([(x, y + 7), (x + 14, y + 7)], style))?;
    } else {
        canvas.draw(&Rectangle::new([(x, y + 1), (x + 14, y + 12)], row.ink.colour.filled()))?;
    }
    text(canvas, &name(&row.name), (TEXT_X, y), TEXT_SIZE, TEXT, HPos::Left)?;
    let end = x + BYTES_END as i32;
    text(canvas, &row.bytes, (end, y + 16), TEXT_SIZE, MUTED, HPos::Right)?;
    let note = keep_start(&terminal(&row.note), NOTE_CHARACTERS).into_owned();
    text(canvas, &note, (end + 12, y + 16), TEXT_SIZE, MUTED, HPos::Left)
}
