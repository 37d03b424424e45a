//! What several tables are made with: the device they speak of, and cells that occur in more than one.
//!
//! Owns no table and no schema.

use polars::prelude::{Column, DataFrame};

use crate::error::Result;
use crate::model::{DeviceTrace, NO_TIME, PoolId, SegmentKind, StackId, Trace};
use crate::rebuild::{History, NONE};
use crate::tables::{GroupKey, Grouping};

use super::StackHashes;

/// Rows of one piece of a long table, and so of a Parquet row group: some tens of megabytes.
pub(super) const PIECE: usize = 1 << 17;

/// Takes the pieces of a table one by one.
pub type Sink<'s> = dyn FnMut(DataFrame) -> Result<()> + 's;

/// The device that tables speak of.
#[derive(Clone, Copy, Debug)]
pub struct FrameSource<'a> {
    /// The recording.
    pub trace: &'a Trace,
    /// The device's part of it.
    pub device: &'a DeviceTrace,
    /// What happened.
    pub history: &'a History,
    /// Allocations by line.
    pub grouping: &'a Grouping,
    /// Hashes of the trace's stacks.
    pub hashes: &'a StackHashes,
}

impl FrameSource<'_> {
    /// The device's index in each of `rows` rows.
    pub(super) fn device_column(&self, rows: usize) -> Column {
        device_column(self.history.device.0, rows)
    }

    /// Numbers and hashes of stacks.
    pub(super) fn stack_columns(&self, stacks: &[StackId]) -> [Column; 2] {
        let known = |&stack: &StackId| (stack != StackId::NONE).then_some(stack.0);
        let hashes: Vec<_> = stacks.iter().map(|&stack| self.hashes.text(stack)).collect();
        [
            Column::new("stack".into(), stacks.iter().map(known).collect::<Vec<_>>()),
            Column::new("stack_hash".into(), hashes),
        ]
    }

    /// Unix time of `event`, where it has one.
    pub(super) fn time_of(&self, event: Option<u32>) -> Option<i64> {
        let time = *self.device.events.times_us.get(event? as usize)?;
        (time != NO_TIME).then_some(time)
    }
}

pub(super) fn device_column(device: u32, rows: usize) -> Column {
    Column::new("device".into(), vec![device; rows])
}

/// One column of `rows`.
pub(super) fn counts<R>(name: &str, rows: &[R], of: impl Fn(&R) -> u64) -> Column {
    Column::new(name.into(), rows.iter().map(of).collect::<Vec<_>>())
}

/// One column of `rows` that may be null.
pub(super) fn known_counts<R>(name: &str, rows: &[R], of: impl Fn(&R) -> Option<u64>) -> Column {
    Column::new(name.into(), rows.iter().map(of).collect::<Vec<_>>())
}

/// One column of `rows`, as text.
pub(super) fn texts<'r, R>(name: &str, rows: &'r [R], of: impl Fn(&'r R) -> &'r str) -> Column {
    Column::new(name.into(), rows.iter().map(of).collect::<Vec<_>>())
}

/// Event number, `None` for "no event".
pub(super) fn known_event(event: u32) -> Option<u32> {
    (event != NONE).then_some(event)
}

/// Event number as the tables write it.
pub(super) fn event_number(event: Option<u64>) -> Option<u32> {
    event.and_then(|event| u32::try_from(event).ok())
}

pub(super) fn kind_name(kind: SegmentKind) -> &'static str {
    match kind {
        SegmentKind::Small => "small",
        SegmentKind::Large => "large",
    }
}

/// `0:0` is the default pool.
pub(super) fn pool_name(pool: PoolId) -> String {
    format!("{}:{}", pool.0, pool.1)
}

/// File, line and function of a row's group.
#[derive(Default)]
pub(super) struct Positions<'t> {
    file: Vec<Option<&'t str>>,
    line: Vec<Option<u64>>,
    function: Vec<Option<&'t str>>,
}

impl<'t> Positions<'t> {
    pub(super) fn push(&mut self, trace: &'t Trace, key: Option<&GroupKey>) {
        self.file.push(key.and_then(|key| key.file(trace)));
        self.line.push(key.and_then(|key| key.line));
        self.function.push(key.and_then(|key| key.function(trace)));
    }

    pub(super) fn push_stack(&mut self, trace: &'t Trace, grouping: &Grouping, stack: StackId) {
        self.push(trace, grouping.key_of_stack(stack));
    }

    pub(super) fn columns(self) -> [Column; 3] {
        [
            Column::new("file".into(), self.file),
            Column::new("line".into(), self.line),
            Column::new("function".into(), self.function),
        ]
    }
}
