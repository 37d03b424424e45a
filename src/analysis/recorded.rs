//! What the recorder added, in the report's words: modules, names, holders, readings.
//!
//! Owns how many rows are kept and what a wrong reading warns of. Figures come from `tables`.

use std::collections::BTreeSet;

use crate::model::{Mark, MarkKind, Trace, Warnings};
use crate::rebuild::{History, Moment};
use crate::report::{
    CategoriesRow, CategoryRow, CensusRow, DifferenceRow, HolderRow, ModuleRow, ModulesRow, OutsidePointRow,
    OutsideRow, PhaseRow, PlaceRow, SelfCheckRow, TensorRow,
};
use crate::tables::{self, Grouping, Names, PhaseFigures, Readings};

/// Rows of tensors and of holders that are kept.
const MAX_ROWS: usize = 200;
/// Largest count that is believed: sums of them stay far from overflow.
const MAX_COUNT: u64 = 1 << 40;

pub(super) fn modules(trace: &Trace, table: tables::ModuleTable) -> ModulesRow {
    let row = |row: tables::ModuleRow| ModuleRow {
        total: phase(row.total()),
        forward: phase(row.phases[0]),
        backward: phase(row.phases[1]),
        optimizer: phase(row.phases[2]),
        forward_line: row.forward_line.map(|key| PlaceRow {
            file: key.file(trace).map(str::to_owned),
            line: key.line,
            function: key.function(trace).map(str::to_owned),
        }),
        module: row.module,
    };
    ModulesRow {
        rows: table.rows.into_iter().map(row).collect(),
        unnamed: phase(table.unnamed),
        backward_bytes: table.backward_bytes,
        backward_named_bytes: table.backward_named_bytes,
    }
}

fn phase(figures: PhaseFigures) -> PhaseRow {
    PhaseRow {
        held_at_peak_bytes: figures.held_at_peak_bytes,
        total_bytes: figures.total_bytes,
        allocations: figures.allocations,
    }
}

pub(super) fn census(trace: &Trace, history: &History, grouping: &Grouping, names: &Names) -> CensusRow {
    let shown = |length: usize| length.min(MAX_ROWS);
    let (tensors, holders) = (shown(names.tensors.len()), shown(names.holders.len()));
    CensusRow {
        count: names.censuses,
        unmatched_tensors: names.unmatched_tensors,
        unmatched_bytes: names.unmatched_bytes,
        tensors_left_out: (names.tensors.len() - tensors) as u64,
        tensors: names.tensors[..tensors].iter().map(|row| tensor(trace, history, grouping, row)).collect(),
        holders_left_out: (names.holders.len() - holders) as u64,
        holders: names.holders[..holders].iter().map(|row| holder(trace, history, grouping, row)).collect(),
        categories: CategoriesRow {
            at_peak: categories(&names.at_peak),
            at_oom: names.at_oom.as_deref().map(categories),
            at_end: categories(&names.at_end),
        },
    }
}

fn categories(rows: &[tables::CategoryRow]) -> Vec<CategoryRow> {
    let row = |row: &tables::CategoryRow| CategoryRow {
        kind: row.kind.clone(),
        allocations: row.allocations,
        bytes: row.bytes,
        block_bytes: row.block_bytes,
    };
    rows.iter().map(row).collect()
}

fn line(trace: &Trace, grouping: &Grouping, allocation: usize) -> Option<String> {
    grouping.key_of_allocation(allocation).map(|key| key.label(trace))
}

fn tensor(trace: &Trace, history: &History, grouping: &Grouping, row: &tables::TensorRow) -> TensorRow {
    let named = &trace.tensors[row.tensor];
    let live_at = |moment| history.allocations.is_allocated_at(row.allocation, moment);
    TensorRow {
        name: named.name.clone(),
        kind: named.kind.clone(),
        bytes: named.bytes,
        block_bytes: history.allocations.block_bytes[row.allocation],
        dtype: named.dtype.clone(),
        shape: named.shape.clone(),
        grad_fn: named.grad_fn.clone(),
        live_at_peak: live_at(history.peaks.allocated.moment),
        live_at_end: live_at(Moment(history.events)),
        line: line(trace, grouping, row.allocation),
    }
}

fn holder(trace: &Trace, history: &History, grouping: &Grouping, row: &tables::HolderRow) -> HolderRow {
    let found = &trace.holders[row.holder];
    let named = row.tensor.map(|tensor| &trace.tensors[tensor]);
    HolderRow {
        path: found.path.clone(),
        bytes: row.allocation.map(|allocation| history.allocations.block_bytes[allocation]),
        address: found.address,
        line: row.allocation.and_then(|allocation| line(trace, grouping, allocation)),
        kind: named.map(|tensor| tensor.kind.clone()),
        name: named.map(|tensor| tensor.name.clone()).filter(|name| !name.is_empty()),
    }
}

pub(super) fn outside(readings: &Readings) -> Option<OutsideRow> {
    let outside = readings.outside.as_ref()?;
    let event = |point: &tables::OutsidePoint| point.moment.and_then(Moment::event);
    let point = |point: &tables::OutsidePoint| OutsidePointRow {
        event: event(point),
        time_us: point.time_us,
        bytes: point.bytes,
    };
    Some(OutsideRow {
        samples: readings.samples,
        max_bytes: outside.max.bytes,
        max_event: event(&outside.max),
        end_bytes: outside.end.bytes,
        total_bytes: outside.end.total_bytes,
        free_bytes: outside.end.free_bytes,
        reserved_bytes: outside.end.reserved_bytes,
        series: outside.series.iter().map(point).collect(),
    })
}

pub(super) fn self_check(readings: &Readings) -> Option<SelfCheckRow> {
    let check = readings.check?;
    let difference = |found: tables::Difference| DifferenceRow {
        event: found.moment.event(),
        counter: found.counter.to_owned(),
        recorded: found.recorded,
        rebuilt: found.rebuilt,
    };
    Some(SelfCheckRow {
        samples: check.samples,
        equal: check.equal,
        missing_allocations: check.missing_allocations,
        first_difference: check.first_difference.map(difference),
    })
}

/// What the comparison with PyTorch's own counters warns of.
pub(super) fn warn_of_check(device: u32, check: &SelfCheckRow, warnings: &mut Warnings) {
    if let Some(first) = &check.first_difference {
        let subject = format!("device {device}");
        warnings.add_about("self-check", &subject, check.samples - check.equal, || {
            let at = first.event.map_or_else(|| "before the first event".to_owned(), |e| format!("after event {e}"));
            format!(
                "device {device}: PyTorch's own counters differ from the rebuilt ones; first {at}: {} was {}, rebuilt {}",
                first.counter, first.recorded, first.rebuilt
            )
        });
    }
    let subject = format!("device {device}");
    warnings.add_about("missing-allocations", &subject, check.missing_allocations.min(MAX_COUNT), || {
        format!("device {device}: PyTorch counted allocations that the recording does not have")
    });
}

/// Whether the recorder lost nothing, as it says itself; what it says otherwise becomes warnings.
pub(super) fn is_whole(trace: &Trace, warnings: &mut Warnings) -> bool {
    let lost = trace.process.lost_events;
    if warnings.count("lost-events") == 0 {
        warnings.add_many("lost-events", lost.min(MAX_COUNT), || {
            "the recorder lost events and says so".to_owned()
        });
    }
    // A recorder says most faults twice, as a mark and as a warning; losses are said above.
    let said: BTreeSet<String> = warnings.iter().map(|warning| warning.text.clone()).collect();
    let is_said = |mark: &Mark| said.contains(&mark.name) || lost > 0 && mark.name.starts_with("lost ");
    let faults = trace.marks.iter().filter(|mark| mark.kind == MarkKind::Fault);
    for mark in faults.filter(|mark| !is_said(mark)) {
        warnings.add("recorder-fault", || mark.name.clone());
    }
    lost == 0
}
