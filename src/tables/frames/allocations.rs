//! One row per allocation.

use std::collections::BTreeMap;
use std::ops::Range;

use polars::prelude::{Column, DataFrame};

use crate::error::Result;
use crate::model::StackId;
use crate::rebuild::{Moment, NONE};
use crate::tables::{Categories, Names, Phases, StepTable};

use super::parts::{FrameSource, PIECE, Positions, Sink, kind_name, known_event, pool_name};
use super::schema::TableSchema;
use super::schema::columns::{
    DEVICE, FILE, FUNCTION, LINE, STACK, STACK_HASH, bytes, count, count_or_null, event, flag, flag_or_null,
    number, number_or_null, text, text_or_null, time,
};

/// The table's schema.
pub const ALLOCATIONS: TableSchema = TableSchema {
    name: "allocations",
    meaning: "Every allocation: those from before the recording by address, then by their `alloc` event",
    columns: &[
        DEVICE,
        number("id", "number of the allocation on its device"),
        count_or_null("stream", "stream that allocated it; null when unknown"),
        text_or_null(
            "pool",
            "`0:0` default pool, `0:n` a `MemPool`, `n:0` a graph's pool; null when unknown",
        ),
        text_or_null("kind", "`small` or `large` pool; null when its segment is unknown"),
        count("address", "first byte"),
        bytes("requested_bytes", "asked for"),
        bytes("block_bytes", "its block, rounding included: what allocated bytes count"),
        event("alloc_event", "handed it out; null: before the recording"),
        event("free_requested_event", "gave it back; null: not before the end"),
        event("free_completed_event", "made it reusable; null: active at the end"),
        time("alloc_time_us", "Unix time of `alloc_event`; null when not known"),
        time("lifetime_us", "from handed out to given back; null when either time is not known"),
        number_or_null("step", "number of the step that made it, see `steps`; null outside of every step"),
        text_or_null(
            "phase",
            "`forward`, `backward`, `optimizer`, `loading`, `evaluation` or `unknown`: what the process was doing \
             as it was made; null: before the recording",
        ),
        text(
            "category",
            "`parameter`, `buffer`, `gradient`, `optimizer_state`, `activation`, `input`, `temporary`, `workspace` \
             or `unknown`: what it is for",
        ),
        flag("named", "whether a census of the recorder names it, and so its category"),
        text_or_null("tensor", "its tensor's name in that census; null when it has none"),
        text_or_null("module", "module that the recorder noted for it; null when it noted none"),
        flag("live_at_peak", "whether it is allocated when allocated bytes first peak"),
        flag_or_null("live_at_oom", "whether it is at the last failed request; null when none failed"),
        flag("live_at_end", "whether it is after the last event"),
        STACK,
        STACK_HASH,
        FILE,
        LINE,
        FUNCTION,
        flag("inferred", "whether that line was inferred rather than recorded"),
    ],
};

/// What allocations are for, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub struct Purposes<'a> {
    /// The steps that made them.
    pub steps: &'a StepTable,
    /// The phases that made them.
    pub phases: &'a Phases,
    /// Their categories.
    pub categories: &'a Categories,
    /// Their names, where the recorder took a census.
    pub names: Option<&'a Names>,
}

/// The table of [`ALLOCATIONS`].
///
/// # Errors
/// Those of `sink`; when the table engine refuses the table, which would be a fault of memlab.
pub fn allocation_frames(
    source: &FrameSource<'_>,
    purposes: Purposes<'_>,
    sink: &mut Sink<'_>,
) -> Result<()> {
    let pools = |pools: &[_]| pools.iter().map(|&pool| pool_name(pool)).collect();
    let named = purposes.names.into_iter().flat_map(|names| &names.tensors);
    let rows = Rows {
        source: *source,
        purposes,
        range_pools: pools(&source.history.ranges.pools),
        event_pools: pools(&source.trace.pools),
        tensors: named.map(|row| (row.allocation, row.tensor)).collect(),
    };
    let count = source.history.allocations.len();
    (0..count).step_by(PIECE).try_for_each(|begin| sink(rows.piece(begin..count.min(begin + PIECE))?))
}

struct Rows<'a> {
    source: FrameSource<'a>,
    purposes: Purposes<'a>,
    /// Names of the pools of segments, and of those that events name.
    range_pools: Vec<String>,
    event_pools: Vec<String>,
    /// Allocation to tensor.
    tensors: BTreeMap<usize, usize>,
}

impl Rows<'_> {
    fn piece(&self, rows: Range<usize>) -> Result<DataFrame> {
        let FrameSource { trace, history, grouping, .. } = self.source;
        let allocations = &history.allocations;
        let mut columns = vec![
            self.source.device_column(rows.len()),
            Column::new("id".into(), rows.clone().map(|row| row as u32).collect::<Vec<_>>()),
        ];
        columns.extend(self.places(rows.clone()));
        columns.extend([
            Column::new("address".into(), &allocations.addresses[rows.clone()]),
            Column::new("requested_bytes".into(), &allocations.requested_bytes[rows.clone()]),
            Column::new("block_bytes".into(), &allocations.block_bytes[rows.clone()]),
        ]);
        columns.extend(self.life(rows.clone()));
        columns.extend(self.origin(rows.clone()));
        columns.extend(self.purpose(rows.clone()));
        columns.extend(self.moments(rows.clone()));
        let stacks: &[StackId] = &allocations.stacks[rows.clone()];
        columns.extend(self.source.stack_columns(stacks));
        let mut positions = Positions::default();
        for row in rows.clone() {
            positions.push(trace, grouping.key_of_allocation(row));
        }
        columns.extend(positions.columns());
        columns.push(Column::new("inferred".into(), &grouping.inferred[rows]));
        ALLOCATIONS.frame(columns)
    }

    /// Stream, pool and kind.
    fn places(&self, rows: Range<usize>) -> [Column; 3] {
        let FrameSource { device, history, .. } = self.source;
        let (allocations, ranges) = (&history.allocations, &history.ranges);
        let (mut streams, mut pools, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            let range = allocations.ranges[row] as usize;
            let event = allocations.alloc_events[row] as usize;
            let stream = device.events.streams.get(event);
            let stream = stream.and_then(|&stream| device.events.stream_values.get(stream as usize));
            let named = device.events.pools.get(event).checked_sub(1);
            let event_pool = named.and_then(|pool| self.event_pools.get(pool as usize));
            streams.push(stream.or_else(|| ranges.streams.get(range)).copied());
            pools.push(self.range_pools.get(range).or(event_pool).map(String::as_str));
            kinds.push(ranges.kinds.get(range).map(|&kind| kind_name(kind)));
        }
        [
            Column::new("stream".into(), streams),
            Column::new("pool".into(), pools),
            Column::new("kind".into(), kinds),
        ]
    }

    /// Events and times.
    fn life(&self, rows: Range<usize>) -> [Column; 5] {
        let allocations = &self.source.history.allocations;
        let events = |column: &[u32]| -> Vec<_> {
            column[rows.clone()].iter().map(|&event| known_event(event)).collect()
        };
        let (mut times, mut lifetimes) = (Vec::new(), Vec::new());
        for row in rows.clone() {
            let from = self.source.time_of(known_event(allocations.alloc_events[row]));
            let until = self.source.time_of(known_event(allocations.given_back_event(row)));
            times.push(from);
            lifetimes.push(from.zip(until).and_then(|(from, until)| until.checked_sub(from)));
        }
        [
            Column::new("alloc_event".into(), events(&allocations.alloc_events)),
            Column::new("free_requested_event".into(), events(&allocations.free_requested_events)),
            Column::new("free_completed_event".into(), events(&allocations.free_completed_events)),
            Column::new("alloc_time_us".into(), times),
            Column::new("lifetime_us".into(), lifetimes),
        ]
    }

    /// Step and phase.
    fn origin(&self, rows: Range<usize>) -> [Column; 2] {
        let (mut steps, mut phases) = (Vec::new(), Vec::new());
        for &event in &self.source.history.allocations.alloc_events[rows] {
            let event = known_event(event).map(u64::from);
            steps.push(event.and_then(|event| self.step_of(event)));
            phases.push(event.map(|event| self.purposes.phases.of_event(event).name()));
        }
        [Column::new("step".into(), steps), Column::new("phase".into(), phases)]
    }

    fn step_of(&self, event: u64) -> Option<u32> {
        let steps = &self.purposes.steps.rows;
        let begun = steps.partition_point(|step| step.begin.0 <= event);
        let step = begun.checked_sub(1).filter(|&step| event < steps[step].end.0)?;
        Some(step as u32)
    }

    /// Category, name and module.
    fn purpose(&self, rows: Range<usize>) -> [Column; 4] {
        let FrameSource { trace, device, history, grouping, .. } = self.source;
        let Purposes { categories, .. } = self.purposes;
        let tags = &grouping.modules.tags;
        let tensor_of = |row| {
            let tensor = self.tensors.get(&row).and_then(|&tensor| trace.tensors.get(tensor));
            tensor.map(|tensor| tensor.name.as_str()).filter(|name| !name.is_empty())
        };
        let module_of = |row: usize| {
            let event = history.allocations.alloc_events[row];
            let tag = (event != NONE).then(|| tags.of_event(&device.events, event as usize)).flatten()?;
            tags.names.get(tag.module? as usize).map(String::as_str)
        };
        let names: Vec<_> = rows.clone().map(|row| categories.of(row).name()).collect();
        let named: Vec<_> = rows.clone().map(|row| categories.is_named(row)).collect();
        [
            Column::new("category".into(), names),
            Column::new("named".into(), named),
            Column::new("tensor".into(), rows.clone().map(tensor_of).collect::<Vec<_>>()),
            Column::new("module".into(), rows.map(module_of).collect::<Vec<_>>()),
        ]
    }

    /// Whether it is live at the moments of interest.
    fn moments(&self, rows: Range<usize>) -> [Column; 3] {
        let history = self.source.history;
        let at = |moment| -> Vec<bool> {
            rows.clone().map(|row| history.allocations.is_allocated_at(row, moment)).collect()
        };
        let at_oom = match history.ooms.last() {
            Some(oom) => at(Moment(oom.event)).into_iter().map(Some).collect(),
            None => vec![None; rows.len()],
        };
        [
            Column::new("live_at_peak".into(), at(history.peaks.allocated.moment)),
            Column::new("live_at_oom".into(), at_oom),
            Column::new("live_at_end".into(), at(Moment(history.events))),
        ]
    }
}
