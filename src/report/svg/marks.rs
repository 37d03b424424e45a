//! Moments in a picture: the peak, OOMs, steps, and the size of the device.
//!
//! Owns how many of them are drawn and where their labels go. What a mark means stands in words beside it,
//! not only in its colour.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::decorate::Tooltips;
use super::draw::{Canvas, Drawn, text};
use super::outline::Grid;
use super::palette::{DEVICE, Ink, OOM, PEAK, STEP};
use super::picture::{COLUMNS, LEFT, Picture, ROWS, TOP};
use crate::report::escape::{keep_start, terminal};
use crate::report::types::TimelineMark;
use crate::units::Bytes;

/// More steps than this are a grey bar, not marks.
pub(super) const MOST_STEPS: usize = 100;
/// More failed requests than this hide the curves.
const MOST_OOMS: usize = 40;
const LABEL_ROWS: [i32; 2] = [TOP - 38, TOP - 23];
const LABEL_CHARACTERS: usize = 36;

/// Draws all marks of `picture`.
pub(super) fn draw(
    canvas: &Canvas<'_>,
    picture: &Picture<'_>,
    grid: &Grid,
    tooltips: &mut Tooltips,
) -> Drawn {
    device(canvas, picture, grid, tooltips)?;
    steps(canvas, picture, grid, tooltips)?;
    let mut labels = Labels::default();
    // The last OOM ended the run: it gets its label first.
    for mark in picture.marks("oom").into_iter().rev().take(MOST_OOMS) {
        moment(canvas, mark, OOM, grid, tooltips, &mut labels)?;
    }
    for mark in picture.marks("peak").into_iter().take(1) {
        moment(canvas, mark, PEAK, grid, tooltips, &mut labels)?;
    }
    Ok(())
}

fn column(mark: &TimelineMark, grid: &Grid) -> i32 {
    let share = (mark.x as f64 / grid.x_end).min(1.0);
    LEFT + (share * f64::from(COLUMNS)).round() as i32
}

fn steps(canvas: &Canvas<'_>, picture: &Picture<'_>, grid: &Grid, tooltips: &mut Tooltips) -> Drawn {
    let marks = picture.marks("step");
    if marks.len() > MOST_STEPS {
        return Ok(());
    }
    for mark in marks {
        let x = column(mark, grid);
        tooltips.add(STEP, terminal(&mark.label).into_owned());
        canvas.draw(&PathElement::new([(x, TOP - 6), (x, TOP)], STEP.colour.stroke_width(1)))?;
    }
    Ok(())
}

fn device(canvas: &Canvas<'_>, picture: &Picture<'_>, grid: &Grid, tooltips: &mut Tooltips) -> Drawn {
    let Some(total) = picture.device_bytes else {
        return Ok(());
    };
    let y = TOP + ROWS - (total as f64 / grid.y_end * f64::from(ROWS)).round() as i32;
    tooltips.add(DEVICE, format!("size of the device: {}", Bytes(total)));
    canvas.draw(&PathElement::new([(LEFT, y), (LEFT + COLUMNS, y)], DEVICE.colour.stroke_width(1)))
}

fn moment(
    canvas: &Canvas<'_>,
    mark: &TimelineMark,
    ink: Ink,
    grid: &Grid,
    tooltips: &mut Tooltips,
    labels: &mut Labels,
) -> Drawn {
    let x = column(mark, grid);
    let label = terminal(&mark.label);
    tooltips.add(ink, label.clone().into_owned());
    let shown = keep_start(&label, LABEL_CHARACTERS);
    let mut top = TOP - 8;
    if let Some((row, side)) = labels.place(x, shown.chars().count()) {
        top = LABEL_ROWS[row] + 1;
        let (beside, anchor) = match side {
            Side::Right => (x + 6, HPos::Left),
            Side::Left => (x - 6, HPos::Right),
        };
        text(canvas, &shown, (beside, LABEL_ROWS[row]), 12, ink, anchor)?;
    }
    canvas.draw(&PathElement::new([(x, top), (x, TOP + ROWS)], ink.colour.stroke_width(2)))
}

/// Where a label stands from its mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// Places of labels that are taken, as pixel ranges by row.
#[derive(Default)]
struct Labels {
    taken: [Vec<(i32, i32)>; LABEL_ROWS.len()],
}

impl Labels {
    /// A free place beside `x` for a text of so many characters: its row and side.
    fn place(&mut self, x: i32, characters: usize) -> Option<(usize, Side)> {
        let width = characters as i32 * 8 + 8;
        let right = ((x, x + width), Side::Right);
        let left = ((x - width, x), Side::Left);
        let sides = if x + width <= LEFT + COLUMNS { [right, left] } else { [left, right] };
        for row in (0..LABEL_ROWS.len()).rev() {
            for ((from, to), side) in &sides {
                let inside = *from >= 0 && *to <= LEFT + COLUMNS;
                let free = self.taken[row].iter().all(|(start, end)| to < start || from > end);
                if inside && free {
                    self.taken[row].push((*from, *to));
                    return Some((row, *side));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_lie_on_each_other() {
        let mut labels = Labels::default();
        assert_eq!(labels.place(LEFT + COLUMNS, 15), Some((1, Side::Left)));
        assert_eq!(labels.place(LEFT + COLUMNS - 4, 14), Some((0, Side::Left)));
        assert_eq!(labels.place(LEFT + COLUMNS - 8, 14), None);
        assert_eq!(labels.place(LEFT, 14), Some((1, Side::Right)));
    }
}
