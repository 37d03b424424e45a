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
use super::picture::{COLUMNS, LEFT, Picture, TOP};
use super::sheet::TEXT_SIZE;
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
    let ooms = picture.marks("oom");
    let (last, earlier) = ooms.split_last().map_or((None, &[][..]), |(last, rest)| (Some(*last), rest));
    for mark in earlier.iter().rev().take(MOST_OOMS) {
        line(canvas, mark, OOM, grid, TOP - 8, tooltips)?;
    }
    let peak = picture.marks("peak").first().copied();
    let mut labelled: Vec<_> = [(last, OOM), (peak, PEAK)]
        .into_iter()
        .filter_map(|(mark, ink)| mark.map(|mark| (mark, ink)))
        .collect();
    labelled.sort_by_key(|(mark, _)| nearness(column(mark, grid)));
    let mut rows = Rows::default();
    for (mark, ink) in labelled {
        moment(canvas, mark, ink, grid, tooltips, &mut rows)?;
    }
    Ok(())
}

/// The order that keeps a mark's line off the labels below its own: a label left of its mark comes after
/// those further left, a label right of its mark after those further right.
fn nearness(x: i32) -> i32 {
    match Side::of(x) {
        Side::Left => x,
        Side::Right => -x,
    }
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
    let y = TOP + (grid.rows - total as f64 / grid.y_end * grid.rows).round() as i32;
    tooltips.add(DEVICE, format!("size of the device: {}", Bytes(total)));
    canvas.draw(&PathElement::new([(LEFT, y), (LEFT + COLUMNS, y)], DEVICE.colour.stroke_width(1)))
}

/// A mark with its label: the last OOM, which ended the run, or the peak.
fn moment(
    canvas: &Canvas<'_>,
    mark: &TimelineMark,
    ink: Ink,
    grid: &Grid,
    tooltips: &mut Tooltips,
    rows: &mut Rows,
) -> Drawn {
    let x = column(mark, grid);
    let label = terminal(&mark.label);
    let shown = keep_start(&label, LABEL_CHARACTERS);
    let y = rows.place(x, shown.chars().count() as i32 * 8 + 8);
    let (beside, anchor) = match Side::of(x) {
        Side::Right => (x + 6, HPos::Left),
        Side::Left => (x - 6, HPos::Right),
    };
    text(canvas, &shown, (beside, y), TEXT_SIZE, ink, anchor)?;
    line(canvas, mark, ink, grid, y + 1, tooltips)
}

fn line(
    canvas: &Canvas<'_>,
    mark: &TimelineMark,
    ink: Ink,
    grid: &Grid,
    top: i32,
    tooltips: &mut Tooltips,
) -> Drawn {
    let x = column(mark, grid);
    tooltips.add(ink, terminal(&mark.label).into_owned());
    canvas.draw(&PathElement::new([(x, top), (x, TOP + grid.rows as i32)], ink.colour.stroke_width(2)))
}

/// Where a label stands from its mark: towards the middle of the plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

impl Side {
    fn of(x: i32) -> Self {
        if x > LEFT + COLUMNS / 2 { Self::Left } else { Self::Right }
    }
}

/// Which part of the lower label row is taken.
#[derive(Default)]
struct Rows {
    taken: Option<(i32, i32)>,
}

impl Rows {
    /// Upper edge of a label of `width` at the mark at `x`: in the lower row while it is free there.
    fn place(&mut self, x: i32, width: i32) -> i32 {
        let (from, to) = match Side::of(x) {
            Side::Left => (x - width, x),
            Side::Right => (x, x + width),
        };
        match self.taken {
            Some((start, end)) if from <= end && start <= to => LABEL_ROWS[0],
            _ => {
                self.taken = Some((from, to));
                LABEL_ROWS[1]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_lie_on_each_other() {
        let mut rows = Rows::default();
        assert_eq!(rows.place(LEFT + COLUMNS - 10, 100), LABEL_ROWS[1]);
        assert_eq!(rows.place(LEFT + COLUMNS, 100), LABEL_ROWS[0]);
        let mut rows = Rows::default();
        assert_eq!(rows.place(LEFT, 100), LABEL_ROWS[1]);
        assert_eq!(rows.place(LEFT + COLUMNS, 100), LABEL_ROWS[1]);
    }

    #[test]
    fn no_line_crosses_the_label_of_the_other_mark() {
        let right_end = [LEFT + COLUMNS, LEFT + COLUMNS - 15];
        assert!(nearness(right_end[1]) < nearness(right_end[0]));
        assert!(nearness(LEFT + 15) < nearness(LEFT));
    }
}
