//! The lines by rank: the order of the table of lines, in which they also get their colours.
//!
//! Owns the ranks and the remainder of those for which there is no room. The figures are the table's.

use crate::model::Trace;
use crate::rebuild::{History, Moment};
use crate::tables::walk::{Tally, Walk};
use crate::tables::{Grouping, LineTable};

use super::{Limits, Texts};

/// Lines, most bytes held at the peak first. With too many of them the last row is the named remainder.
#[derive(Clone, Debug, Default)]
pub struct LineColumns {
    /// Number of the file's name in the texts.
    pub file: Vec<u32>,
    /// Line; 0 when unknown.
    pub line: Vec<u64>,
    /// Number of the function's name in the texts.
    pub function: Vec<u32>,
    /// Bytes live when allocated bytes peak.
    pub held: Vec<u64>,
    /// The most it ever held.
    pub own: Vec<u64>,
    /// Lines that share the last row.
    pub left_out: u64,
    /// By group: rank plus one, 0 for a group without a row.
    of_group: Vec<u32>,
}

impl LineColumns {
    /// Rank plus one of `group`; 0 when there is none.
    #[inline]
    #[must_use]
    pub fn of(&self, group: u32) -> u32 {
        self.of_group.get(group as usize).copied().unwrap_or(0)
    }

    /// Rows that stand for one line each.
    #[must_use]
    pub fn own_rows(&self) -> usize {
        self.file.len() - usize::from(self.left_out > 0)
    }

    pub(super) fn build(
        trace: &Trace,
        history: &History,
        grouping: &Grouping,
        table: &LineTable,
        limits: &Limits,
        texts: &mut Texts,
    ) -> Self {
        let mut lines = Self { of_group: vec![0; grouping.len()], ..Self::default() };
        for (rank, entry) in table.entries.iter().enumerate() {
            let is_full = rank >= limits.lines || texts.bytes() > limits.text_bytes;
            if lines.left_out > 0 || is_full {
                lines.left_out += 1;
                continue;
            }
            let Some(key) = grouping.keys.get(entry.group as usize) else { continue };
            // Text number 0 is the empty one.
            let file = texts.path(trace, key.file.unwrap_or_default());
            let function = texts.name(trace, key.function.unwrap_or_default());
            let figures = &entry.figures;
            lines.push(file, key.line.unwrap_or(0), function);
            lines.held.push(figures.held_at_peak_bytes);
            lines.own.push(figures.own_peak_bytes);
            lines.of_group[entry.group as usize] = lines.file.len() as u32;
        }
        if lines.left_out > 0 {
            lines.add_remainder(history, grouping, table, texts);
        }
        lines
    }

    fn push(&mut self, file: u32, line: u64, function: u32) {
        self.file.push(file);
        self.line.push(line);
        self.function.push(function);
    }

    fn add_remainder(
        &mut self,
        history: &History,
        grouping: &Grouping,
        table: &LineTable,
        texts: &mut Texts,
    ) {
        let others = &table.entries[self.file.len()..];
        let (file, name) = (texts.text(""), texts.text(&format!("… {} lines left out", self.left_out)));
        self.push(file, 0, name);
        let number = self.file.len() as u32;
        let held =
            others.iter().fold(0u64, |sum, entry| sum.saturating_add(entry.figures.held_at_peak_bytes));
        for entry in others {
            self.of_group[entry.group as usize] = number;
        }
        let mut peak = OwnPeak { history, lines: self, grouping, number, held: 0, highest: 0 };
        Walk::new(history).run(&mut peak);
        let highest = peak.highest;
        self.held.push(held);
        self.own.push(highest);
    }
}

/// The most that the remainder as a whole ever held.
struct OwnPeak<'a> {
    history: &'a History,
    lines: &'a LineColumns,
    grouping: &'a Grouping,
    number: u32,
    held: u64,
    highest: u64,
}

impl OwnPeak<'_> {
    fn bytes(&self, row: usize) -> u64 {
        let is_other = self.lines.of(self.grouping.of_allocation[row]) == self.number;
        if is_other { self.history.allocations.block_bytes[row] } else { 0 }
    }
}

impl<'a> Tally<'a> for OwnPeak<'a> {
    fn alloc(&mut self, row: usize) {
        self.held = self.held.saturating_add(self.bytes(row));
    }

    fn free(&mut self, row: usize) {
        self.held = self.held.saturating_sub(self.bytes(row));
    }

    fn arrive(&mut self, _moment: Moment) {
        self.highest = self.highest.max(self.held);
    }
}
