//! The table of lines: what every group held, and when.
//!
//! Owns the figures per group and their order. Group-bys over allocations, the join with the maxima from the
//! pass over events (`line_pass`) and the sort are Polars'. Does not own who is charged (`group`) nor what
//! the report shows of it.

use std::ops::Range;

use polars::prelude::*;

use crate::error::{Error, Result};
use crate::model::{DeviceTrace, StackId, Trace};
use crate::rebuild::{History, Moment, NONE, Peak};

use super::line_pass::{self, PassFigures, PassState};
use super::sums::{PartialSums, sum_by_group};
use super::{GroupBy, Grouping};

/// Figures of a group or of the unattributed remainder, in exact bytes of blocks (rounding included).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Bytes live when allocated bytes peak.
    pub held_at_peak_bytes: u64,
    /// The most these allocations ever held at one moment.
    pub own_peak_bytes: u64,
    /// The part of `held_at_peak_bytes` that was attributed by inference.
    pub inferred_bytes: u64,
    /// Bytes of all allocations.
    pub total_bytes: u64,
    /// Number of allocations.
    pub allocations: u64,
    /// Bytes still allocated at the end.
    pub live_at_end_bytes: u64,
}

/// One group with its figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineEntry {
    /// Index into [`Grouping::keys`].
    pub group: u32,
    /// The highest total of active bytes of the device right before or after any event that has the group
    /// on its stack (also as a caller), or that belongs to a backward pass which the group started.
    pub active_peak_on_stack_bytes: u64,
    /// What the group's own allocations did.
    pub figures: Figures,
}

/// A row with its names as text, ready to be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineTableRow {
    /// File as recorded.
    pub file: Option<String>,
    /// Line number.
    pub line: Option<u64>,
    /// Function.
    pub function: Option<String>,
    /// Module, for [`GroupBy::Module`].
    pub module: Option<String>,
    /// Whole stack as text, innermost frame first, for [`GroupBy::Stack`].
    pub stack: Option<Vec<String>>,
    /// See [`LineEntry`].
    pub active_peak_on_stack_bytes: u64,
    /// What the group's own allocations did.
    pub figures: Figures,
}

/// The table of lines of one device.
///
/// Without a window: over the whole recording. With one (events `from..to`): maxima over the moments from
/// before event `from` to after event `to - 1`; `held_at_peak` at the highest allocated total of these
/// moments; `total_bytes` and `allocations` of what its events handed out (from 0: and of what was live
/// before the recording); `live_at_end` after its last event.
///
/// `held_at_peak_bytes` over all entries plus [`LineTable::unattributed`] is [`LineTable::peak`], to the byte.
#[derive(Clone, Debug)]
pub struct LineTable {
    /// What a row stands for.
    pub by: GroupBy,
    /// The events looked at.
    pub window: Range<u64>,
    /// Highest allocated total of the window and its first moment.
    pub peak: Peak,
    /// Groups, most bytes held at the peak first, then by their own peak, then by name. Groups without any
    /// figure (outside the window) are left out.
    pub entries: Vec<LineEntry>,
    /// What has no group.
    pub unattributed: Figures,
}

impl LineTable {
    /// The first `top` rows (all without it) with their names.
    #[must_use]
    pub fn rows(&self, trace: &Trace, grouping: &Grouping, top: Option<usize>) -> Vec<LineTableRow> {
        let shown = top.unwrap_or(usize::MAX).min(self.entries.len());
        self.entries[..shown].iter().map(|entry| row_of(trace, grouping, entry)).collect()
    }

    /// Bytes held at the peak whose line was inferred.
    #[must_use]
    pub fn inferred_bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.figures.inferred_bytes).sum()
    }
}

fn row_of(trace: &Trace, grouping: &Grouping, entry: &LineEntry) -> LineTableRow {
    let key = grouping.keys.get(entry.group as usize).cloned().unwrap_or_default();
    LineTableRow {
        file: key.file(trace).map(str::to_owned),
        line: key.line,
        function: key.function(trace).map(str::to_owned),
        stack: key.stack_text(trace),
        module: key.module,
        active_peak_on_stack_bytes: entry.active_peak_on_stack_bytes,
        figures: entry.figures,
    }
}

/// Rows of allocations that are summed at a time.
const PIECE_ROWS: usize = 1 << 20;

/// Every group's figures; over `window` (events of the columns, also in an excerpt) where one is given.
///
/// # Errors
/// [`Error::Table`] when Polars refuses, which a well-formed history does not cause.
pub fn lines(
    trace: &Trace,
    device: &DeviceTrace,
    history: &History,
    grouping: &Grouping,
    window: Option<Range<u64>>,
) -> Result<LineTable> {
    let whole = 0..device.events.len() as u64;
    // What was live before an excerpt was not handed out in a window that begins with it.
    let may_begin = window.is_none() || history.first_event == 0;
    let window = window.map_or(whole.clone(), |asked| clamp(&asked, whole.end));
    let mut pass = line_pass::run(device, history, grouping, &window);
    if window == whole {
        pass.peak = history.peaks.allocated;
    }
    let (with_earlier, peak) = (may_begin && window.start == 0, pass.peak.moment);
    let sums = Sums { history, grouping, window: &window, with_earlier, peak };
    let mut parts = Parts::default();
    for which in [Sum::Total, Sum::Held, Sum::Inferred, Sum::Live] {
        sums.add(which, &mut parts).map_err(in_words)?;
    }
    table(trace, grouping, window, &pass, parts).map_err(in_words)
}

/// The table of a whole recording, made from its pieces one after the other: the same as [`lines`] of the whole.
#[derive(Debug, Default)]
pub struct LinesOfPieces {
    pass: Option<PassState>,
    parts: Parts,
    peak: Peak,
    events: u64,
}

impl LinesOfPieces {
    /// Takes in the next piece; `grouping` has its rows ([`Grouping::go_on`]).
    ///
    /// # Errors
    /// As [`lines`].
    pub fn take(
        &mut self,
        device: &DeviceTrace,
        history: &History,
        grouping: &Grouping,
        is_last: bool,
    ) -> Result<()> {
        let is_first = self.pass.is_none();
        let pass = self.pass.get_or_insert_with(|| {
            let mut pass = PassState::new(history, grouping);
            pass.begin_maxima(Moment(0));
            pass
        });
        pass.go_on(device, history, grouping);
        let own = history.peaks.allocated;
        let window = 0..history.events;
        let sums = Sums { history, grouping, window: &window, with_earlier: is_first, peak: own.moment };
        let mut wanted = vec![Sum::Total];
        if is_first || own.bytes > self.peak.bytes {
            self.peak = Peak { bytes: own.bytes, moment: Moment(self.events + own.moment.0) };
            (self.parts.held, self.parts.inferred) = Default::default();
            wanted.extend([Sum::Held, Sum::Inferred]);
        }
        if is_last {
            wanted.push(Sum::Live);
        }
        self.events += history.events;
        wanted.into_iter().try_for_each(|which| sums.add(which, &mut self.parts)).map_err(in_words)
    }

    /// The table, after the last piece.
    ///
    /// # Errors
    /// As [`lines`].
    pub fn table(self, trace: &Trace, grouping: &Grouping) -> Result<LineTable> {
        let groups = grouping.len();
        let mut figures = self.pass.map(|pass| pass.figures).unwrap_or_default();
        figures.own_peak.resize(groups + 1, 0);
        figures.peak = self.peak;
        table(trace, grouping, 0..self.events, &figures, self.parts).map_err(in_words)
    }
}

fn clamp(window: &Range<u64>, events: u64) -> Range<u64> {
    let end = window.end.min(events);
    window.start.min(end)..end
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
fn in_words(error: PolarsError) -> Error {
    Error::Table { table: "lines", what: error.to_string() }
}

/// Sums by group over allocations, as far as they have been made.
#[derive(Debug, Default)]
struct Parts {
    total: PartialSums,
    held: PartialSums,
    inferred: PartialSums,
    live: PartialSums,
}

/// Which allocations are summed.
#[derive(Clone, Copy, Debug)]
enum Sum {
    /// Those that were handed out in the window.
    Total,
    /// Those that are allocated at the peak.
    Held,
    /// Those of them whose group was inferred.
    Inferred,
    /// Those that are allocated at the end of the window.
    Live,
}

/// One row per group, sorted, as a table.
fn table(
    trace: &Trace,
    grouping: &Grouping,
    window: Range<u64>,
    pass: &PassFigures,
    parts: Parts,
) -> PolarsResult<LineTable> {
    let mut frame = maxima(trace, grouping, pass)?;
    let parts =
        [("total", parts.total), ("held", parts.held), ("inferred", parts.inferred), ("live", parts.live)];
    for (name, parts) in parts {
        let sums = parts.whole(name)?;
        frame = frame.join(&sums, ["group"], ["group"], JoinArgs::new(JoinType::Left), None)?;
    }
    let order = SortMultipleOptions::default().with_order_descending_multi([true, true, false]);
    let frame = frame.fill_null(FillNullStrategy::Zero)?.sort(["held", "own_peak", "group"], order)?;
    let (entries, unattributed) = (Vec::new(), Figures::default());
    let mut table = LineTable { by: grouping.by, peak: pass.peak, entries, unattributed, window };
    fill(&mut table, &frame, grouping.len())?;
    Ok(table)
}

/// The part of the table that is group-bys over allocations.
struct Sums<'a> {
    history: &'a History,
    grouping: &'a Grouping,
    window: &'a Range<u64>,
    /// Whether what was live before the first event counts as handed out.
    with_earlier: bool,
    peak: Moment,
}

impl Sums<'_> {
    /// Adds the sums of one kind to `parts`.
    fn add(&self, which: Sum, parts: &mut Parts) -> PolarsResult<()> {
        let allocations = &self.history.allocations;
        let end = Moment(self.window.end);
        let held = |row| allocations.is_allocated_at(row, self.peak);
        let keep = |row: usize| match which {
            Sum::Total => self.is_handed_out(row),
            Sum::Held => held(row),
            Sum::Inferred => held(row) && self.grouping.inferred[row],
            Sum::Live => allocations.is_allocated_at(row, end),
        };
        let (name, parts) = match which {
            Sum::Total => ("total", &mut parts.total),
            Sum::Held => ("held", &mut parts.held),
            Sum::Inferred => ("inferred", &mut parts.inferred),
            Sum::Live => ("live", &mut parts.live),
        };
        let rows = allocations.len();
        // In pieces, so that no frame is as long as the recording. No rows are a piece, too.
        for first in (0..rows.max(1)).step_by(PIECE_ROWS) {
            let piece = first..rows.min(first + PIECE_ROWS);
            parts.add(sum_by_group(&self.allocations(piece.filter(|&row| keep(row)))?, name)?)?;
        }
        Ok(())
    }

    /// Group and bytes of the allocations `rows`. A size is cut at a value at which no sum can overflow: only a
    /// damaged file has such sizes.
    fn allocations(&self, rows: impl Iterator<Item = usize>) -> PolarsResult<DataFrame> {
        let (groups, sizes) = (self.grouping.len(), &self.history.allocations.block_bytes);
        let limit = u64::MAX / (sizes.len() as u64).max(1);
        let of_allocation = &self.grouping.of_allocation;
        let row = |row: usize| (line_pass::slot(of_allocation[row], groups) as u32, sizes[row].min(limit));
        let (group, bytes): (Vec<u32>, Vec<u64>) = rows.map(row).unzip();
        DataFrame::new_infer_height(vec![
            Column::new("group".into(), group),
            Column::new("bytes".into(), bytes),
        ])
    }

    fn is_handed_out(&self, row: usize) -> bool {
        match self.history.allocations.alloc_events[row] {
            NONE => self.with_earlier,
            event => self.window.contains(&u64::from(event)),
        }
    }
}

/// Own peak and active peak of every group. Groups are numbered in the order of their names.
fn maxima(trace: &Trace, grouping: &Grouping, pass: &PassFigures) -> PolarsResult<DataFrame> {
    let mut active = pass.active_in_module.clone();
    active.resize(grouping.len() + 1, 0);
    for (stack, &highest) in pass.active_on_stack.iter().enumerate().filter(|(_, highest)| **highest > 0) {
        for group in grouping.groups_on(trace, StackId(stack as u32)) {
            let slot = &mut active[group as usize];
            *slot = highest.max(*slot);
        }
    }
    DataFrame::new_infer_height(vec![
        Column::new("group".into(), (0..active.len() as u32).collect::<Vec<u32>>()),
        Column::new("own_peak".into(), &pass.own_peak),
        Column::new("active_peak".into(), active),
    ])
}

/// Reads the sorted frame back into rows.
fn fill(table: &mut LineTable, frame: &DataFrame, groups: usize) -> PolarsResult<()> {
    let column = |name: &str| -> PolarsResult<Vec<u64>> {
        Ok(frame.column(name)?.u64()?.iter().map(Option::unwrap_or_default).collect())
    };
    let group: Vec<u32> = frame.column("group")?.u32()?.iter().map(Option::unwrap_or_default).collect();
    let (held, own, inferred) = (column("held")?, column("own_peak")?, column("inferred")?);
    let (total, count, live) = (column("total")?, column("total_count")?, column("live")?);
    let active = column("active_peak")?;
    for row in 0..group.len() {
        let figures = Figures {
            held_at_peak_bytes: held[row],
            own_peak_bytes: own[row],
            inferred_bytes: inferred[row],
            total_bytes: total[row],
            allocations: count[row],
            live_at_end_bytes: live[row],
        };
        if group[row] as usize == groups {
            table.unattributed = figures;
        } else if figures != Figures::default() || active[row] > 0 {
            let active_peak_on_stack_bytes = active[row];
            table.entries.push(LineEntry { group: group[row], active_peak_on_stack_bytes, figures });
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "lines_tests.rs"]
mod tests;
