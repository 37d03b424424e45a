//! Driver memory by line.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::driver::{Figures, Memory, Place, Places, Taking, figures};
use crate::report::DriverLineRow;

use super::Work;

/// What a row of the table stands for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    place: Place,
    holder: u32,
    memory: Memory,
}

/// A row with nothing but its name.
pub(super) fn named(place: &Place) -> DriverLineRow {
    DriverLineRow {
        file: place.file.clone(),
        line: place.line,
        function: place.function.clone(),
        module: place.module.clone(),
        ..DriverLineRow::default()
    }
}

impl Work<'_> {
    /// Rows of the takings for which `holder` names one, and how many are left out. `collapsed` is the holder whose lines
    /// are told elsewhere.
    pub(super) fn lines(
        &self,
        places: &mut Places<'_>,
        peak_calls: u32,
        collapsed: Option<u32>,
        holder: impl Fn(usize, &Taking) -> Option<u32>,
    ) -> (Vec<DriverLineRow>, u64) {
        let mut numbers: BTreeMap<Line, u32> = BTreeMap::new();
        // Many takings have one stack: their line is made once.
        let mut known: FxHashMap<_, u32> = FxHashMap::default();
        let mut number = 0;
        let found = figures(&self.claims.takings.all, peak_calls, |taking| {
            let (index, memory) = (number, taking.memory);
            number += 1;
            let holder = holder(index, taking)?;
            let row = &self.claims.layer.rows[taking.row as usize];
            Some(*known.entry((row.native, row.python, holder, memory)).or_insert_with(|| {
                let place = if collapsed == Some(holder) { Place::default() } else { places.of(row).clone() };
                let next = numbers.len() as u32;
                *numbers.entry(Line { place, holder, memory }).or_insert(next)
            }))
        });
        let mut rows: Vec<DriverLineRow> =
            numbers.into_iter().map(|(line, number)| self.line(&line, found[&number], collapsed)).collect();
        rows.sort_by_key(|row| std::cmp::Reverse((row.at_peak_bytes, row.own_peak_bytes)));
        let left_out = rows.len().saturating_sub(self.top) as u64;
        rows.truncate(self.top);
        (rows, left_out)
    }

    fn line(&self, line: &Line, figures: Figures, collapsed: Option<u32>) -> DriverLineRow {
        let holder = self.claims.holder(line.holder).name.clone();
        let mut row = named(&line.place);
        if collapsed == Some(line.holder) {
            row.function = Some(holder.clone());
        }
        DriverLineRow {
            holder,
            kind: line.memory.name().to_owned(),
            at_peak_bytes: figures.at_peak_bytes,
            own_peak_bytes: figures.own_peak_bytes,
            total_bytes: figures.total_bytes,
            taken: figures.taken,
            kept: figures.kept,
            kept_bytes: figures.end_bytes,
            ..row
        }
    }
}
