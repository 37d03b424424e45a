//! Events on their way into columns, and the tables that their ids point into.
//!
//! Owns the pending event rows of the whole file (all devices, in the order met) and the fast ways into the
//! trace's tables. Which rows belong to which device is for `snapshot` to say.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use crate::error::Result;
use crate::model::{Action, Events, Frame, FrameId, NO_TIME, PoolId, StackId, StringId, Trace};

use super::graph::Ledger;

/// An event as its reader found it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) action: Action,
    pub(super) time_us: i64,
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) stream: u64,
    pub(super) stack: StackId,
    /// Index plus one, as in [`Events::pools`].
    pub(super) pool: u32,
    pub(super) compile_context: StringId,
    pub(super) user_metadata: StringId,
    pub(super) internal_metadata: StringId,
    pub(super) forward_frames: StringId,
    /// Name of an action that is not known.
    pub(super) other_action: StringId,
}

impl Default for Row {
    fn default() -> Self {
        Self {
            action: Action::Other,
            time_us: NO_TIME,
            address: 0,
            size: 0,
            stream: 0,
            stack: StackId::NONE,
            pool: 0,
            compile_context: StringId(0),
            user_metadata: StringId(0),
            internal_metadata: StringId(0),
            forward_frames: StringId(0),
            other_action: StringId(0),
        }
    }
}

/// Bytes of one row in the columns.
pub(super) const ROW_BYTES: usize = 33;
const STACK_CACHE_BITS: u32 = 12;

/// The pending rows and the tables.
pub(super) struct Rows {
    /// All events of the file so far.
    pub(super) events: Events,
    /// The trace whose tables are being filled; its devices are still empty.
    pub(super) trace: Trace,
    /// Budget for what the trace costs.
    pub(super) ledger: Ledger,
    streams: FxHashMap<u64, u32>,
    last_stream: (u64, u32),
    pools: FxHashMap<PoolId, u32>,
    last_pool: Option<(PoolId, u32)>,
    stack_cache: Vec<StackId>,
}

impl Rows {
    /// Empty, for a file of `file_bytes`.
    pub(super) fn new(file_bytes: usize) -> Self {
        Self {
            events: Events::default(),
            trace: Trace { complete: true, ..Trace::default() },
            ledger: Ledger::for_trace(file_bytes),
            streams: FxHashMap::default(),
            last_stream: (0, u32::MAX),
            pools: FxHashMap::default(),
            last_pool: None,
            stack_cache: vec![StackId::NONE; 1 << STACK_CACHE_BITS],
        }
    }

    /// Column value of `stream`.
    #[inline]
    fn stream_index(&mut self, stream: u64) -> u32 {
        if self.last_stream.0 == stream && self.last_stream.1 != u32::MAX {
            return self.last_stream.1;
        }
        let values = &mut self.events.stream_values;
        let index = *self.streams.entry(stream).or_insert_with(|| {
            values.push(stream);
            (values.len() - 1) as u32
        });
        self.last_stream = (stream, index);
        index
    }

    /// Index plus one of `pool` in the trace's list.
    pub(super) fn pool_index(&mut self, pool: PoolId) -> u32 {
        if let Some((known, index)) = self.last_pool
            && known == pool
        {
            return index;
        }
        let list = &mut self.trace.pools;
        let index = *self.pools.entry(pool).or_insert_with(|| {
            list.push(pool);
            list.len() as u32
        });
        self.last_pool = Some((pool, index));
        index
    }

    /// The frame at these texts and line.
    pub(super) fn frame(&mut self, function: &str, file: &str, line: u64) -> FrameId {
        let function = self.trace.strings.intern(function);
        let file = self.trace.strings.intern(file);
        self.trace.frames.intern(Frame { function, file, line })
    }

    /// The stack of `frames`, innermost first. A small cache in front of the table saves most of its
    /// (attack-proof, slower) hashing: recordings repeat their stacks.
    #[inline]
    pub(super) fn stack(&mut self, frames: &[FrameId]) -> StackId {
        let mut hash = frames.len() as u64;
        for frame in frames {
            hash = (hash.rotate_left(5) ^ u64::from(frame.0)).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
        let slot = (hash >> (64 - STACK_CACHE_BITS)) as usize;
        let cached = self.stack_cache[slot];
        if self.trace.stacks.get(cached) == frames {
            return cached;
        }
        let stack = self.trace.stacks.intern(frames);
        self.stack_cache[slot] = stack;
        stack
    }

    /// Number of a text.
    pub(super) fn string(&mut self, text: &[u8]) -> StringId {
        match String::from_utf8_lossy(text) {
            Cow::Borrowed(text) => self.trace.strings.intern(text),
            Cow::Owned(text) => self.trace.strings.intern(&text),
        }
    }

    /// How many rows there are.
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// Appends an event and gives its row.
    #[inline]
    pub(super) fn push(&mut self, row: &Row) -> u32 {
        let stream = self.stream_index(row.stream);
        let events = &mut self.events;
        let index = events.actions.len();
        events.actions.push(row.action);
        events.times_us.push(row.time_us);
        events.addresses.push(row.address);
        events.sizes.push(row.size);
        events.streams.push(stream);
        events.stacks.push(row.stack);
        events.pools.set(index, row.pool);
        events.compile_contexts.set(index, row.compile_context);
        events.user_metadata.set(index, row.user_metadata);
        events.internal_metadata.set(index, row.internal_metadata);
        events.forward_frames.set(index, row.forward_frames);
        if row.action == Action::Other {
            events.other_actions.push((index as u64, row.other_action));
        }
        u32::try_from(index).expect("the budget allows fewer than 2^32 events")
    }

    /// As [`Rows::push`], paid from the budget: for rows that cost the file little.
    pub(super) fn push_charged(&mut self, row: &Row, offset: usize) -> Result<u32> {
        self.ledger.charge(ROW_BYTES, offset)?;
        Ok(self.push(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stack_cache_gives_the_tables_numbers() {
        let mut rows = Rows::new(0);
        let stacks: Vec<Vec<FrameId>> =
            (0..5000u32).map(|n| (0..n % 7).map(|k| FrameId(n * 31 + k)).collect()).collect();
        let first: Vec<_> = stacks.iter().map(|stack| rows.stack(stack)).collect();
        let second: Vec<_> = stacks.iter().map(|stack| rows.stack(stack)).collect();
        assert_eq!(first, second);
        for (stack, id) in stacks.iter().zip(first) {
            assert_eq!(rows.trace.stacks.get(id), stack);
        }
    }

    #[test]
    fn streams_and_pools_are_numbered_once() {
        let mut rows = Rows::new(0);
        for stream in [0, 7, 0, 7] {
            rows.push(&Row { stream, ..Row::default() });
        }
        assert_eq!(rows.events.streams, [0, 1, 0, 1]);
        assert_eq!(rows.events.stream_values, [0, 7]);
        assert_eq!(rows.pool_index(PoolId(0, 1)), 1);
        assert_eq!(rows.pool_index(PoolId(0, 2)), 2);
        assert_eq!(rows.pool_index(PoolId(0, 1)), 1);
    }
}
