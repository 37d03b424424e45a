//! The legend: beside the plot, never on it, in the order of the stack from the top.
//!
//! Owns its rows and how they shrink when there are many.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::draw::{Canvas, Drawn, text};
use super::marks::MOST_STEPS;
use super::palette::{DEVICE, Ink, MUTED, STEP, TEXT};
use super::picture::{COLUMNS, HEIGHT, LEFT, Picture, TOP};
use crate::report::escape::{keep_end, keep_start, terminal};
use crate::units::{Bytes, Count};

const X: i32 = LEFT + COLUMNS + 18;
const TEXT_X: i32 = X + 22;
const NAME_CHARACTERS: usize = 34;
const NOTE_CHARACTERS: usize = 40;

enum Swatch {
    Band,
    Line(u32),
}

struct Entry {
    swatch: Swatch,
    ink: Ink,
    name: String,
    note: String,
}

/// Draws the legend of `picture`.
pub(super) fn draw(canvas: &Canvas<'_>, picture: &Picture<'_>) -> Drawn {
    let entries = entries(picture);
    let room = HEIGHT - 12 - TOP;
    let height = (room / (entries.len() as i32).max(1)).clamp(12, 34);
    for (index, entry) in entries.iter().enumerate() {
        draw_entry(canvas, entry, TOP + index as i32 * height, height)?;
    }
    Ok(())
}

fn entries(picture: &Picture<'_>) -> Vec<Entry> {
    let mut entries = Vec::new();
    if let Some(total) = picture.device_bytes {
        let (name, note) = ("size of the device".to_owned(), Bytes(total).to_string());
        entries.push(Entry { swatch: Swatch::Line(1), ink: DEVICE, name, note });
    }
    for curve in picture.curves.iter().rev() {
        let (name, note) = (curve.name.clone(), curve.note.clone());
        entries.push(Entry { swatch: Swatch::Line(curve.width), ink: curve.ink, name, note });
    }
    for layer in picture.layers.iter().rev() {
        let (name, note) = (layer.name.clone(), layer.note.clone());
        entries.push(Entry { swatch: Swatch::Band, ink: layer.ink, name, note });
    }
    let steps = picture.marks("step").len();
    if steps > 0 && steps <= MOST_STEPS {
        let note = format!("{} begin above the plot", Count(steps as u64));
        entries.push(Entry { swatch: Swatch::Line(1), ink: STEP, name: "steps".to_owned(), note });
    }
    entries
}

fn draw_entry(canvas: &Canvas<'_>, entry: &Entry, y: i32, height: i32) -> Drawn {
    match entry.swatch {
        Swatch::Band => {
            canvas.draw(&Rectangle::new([(X, y + 1), (X + 14, y + 12)], entry.ink.colour.filled()))?;
        }
        Swatch::Line(width) => {
            let style = entry.ink.colour.stroke_width(width);
            canvas.draw(&PathElement::new([(X, y + 7), (X + 14, y + 7)], style))?;
        }
    }
    text(canvas, &keep_end(&terminal(&entry.name), NAME_CHARACTERS), (TEXT_X, y), 12, TEXT, HPos::Left)?;
    if height >= 25 && !entry.note.is_empty() {
        let note = keep_start(&terminal(&entry.note), NOTE_CHARACTERS).into_owned();
        text(canvas, &note, (TEXT_X, y + 14), 11, MUTED, HPos::Left)?;
    }
    Ok(())
}
