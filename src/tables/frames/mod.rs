//! The tables that users take away: allocations, usage, segments, lines and steps as Polars frames.
//!
//! Owns names, types and meanings of columns; they are documented at each function and are part of what
//! memlab promises. Texts are what the file says, untouched. A null says that something is not known or does
//! not apply. Rows come in a fixed order, so the same trace gives the same table.

mod allocations;
mod lines;
mod segments;
mod steps;
mod usage;

use polars::prelude::{Column, DataFrame};

use crate::error::{Error, Result};
use crate::model::{DeviceTrace, NO_TIME, PoolId, SegmentKind, StackId, Trace};
use crate::rebuild::NONE;

use super::{GroupKey, Grouping};

pub use allocations::allocations_frame;
pub use lines::lines_frame;
pub use segments::segments_frame;
pub use steps::steps_frame;
pub use usage::usage_frame;

fn frame(table: &'static str, columns: Vec<Column>) -> Result<DataFrame> {
    DataFrame::new_infer_height(columns).map_err(|error| Error::Table { table, what: error.to_string() })
}

/// Event number, `None` for "no event".
fn known_event(event: u32) -> Option<u32> {
    (event != NONE).then_some(event)
}

/// Unix time of `event`, where it has one.
fn time_of(device: &DeviceTrace, event: Option<u32>) -> Option<i64> {
    let time = *device.events.times_us.get(event? as usize)?;
    (time != NO_TIME).then_some(time)
}

fn kind_name(kind: SegmentKind) -> &'static str {
    match kind {
        SegmentKind::Small => "small",
        SegmentKind::Large => "large",
    }
}

/// `0:0` is the default pool.
fn pool_name(pool: PoolId) -> String {
    format!("{}:{}", pool.0, pool.1)
}

fn known_stack(stack: StackId) -> Option<u32> {
    (stack != StackId::NONE).then_some(stack.0)
}

/// File, line and function of a row's group. With [`super::GroupBy::Module`] the file column holds the module.
#[derive(Default)]
struct Positions<'t> {
    file: Vec<Option<&'t str>>,
    line: Vec<Option<u64>>,
    function: Vec<Option<&'t str>>,
}

impl<'t> Positions<'t> {
    fn push(&mut self, trace: &'t Trace, key: Option<&'t GroupKey>) {
        let module = key.and_then(|key| key.module.as_deref());
        self.file.push(module.or_else(|| key.and_then(|key| key.file(trace))));
        self.line.push(key.and_then(|key| key.line));
        self.function.push(key.and_then(|key| key.function(trace)));
    }

    fn push_stack(&mut self, trace: &'t Trace, grouping: &'t Grouping, stack: StackId) {
        self.push(trace, grouping.key_of_stack(stack));
    }

    fn columns(self) -> [Column; 3] {
        [
            Column::new("file".into(), self.file),
            Column::new("line".into(), self.line),
            Column::new("function".into(), self.function),
        ]
    }
}

#[cfg(test)]
mod tests;
