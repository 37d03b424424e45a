//! The event list of one device, in columns.

use std::ops::Range;

use super::{StackId, StringId};

/// Stands in an OOM's address column for free bytes of the device that are not recorded.
pub const FREE_UNKNOWN: u64 = u64::MAX;

/// What an event says. Names are PyTorch's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Action {
    /// A block was handed out. `size` is the requested size.
    Alloc = 0,
    /// The client gave the block back; it may still wait for other streams.
    FreeRequested = 1,
    /// The block can be reused.
    FreeCompleted = 2,
    /// A segment was obtained with `cudaMalloc`.
    SegmentAlloc = 3,
    /// A segment was returned with `cudaFree`.
    SegmentFree = 4,
    /// A range of an expandable segment was mapped.
    SegmentMap = 5,
    /// A range of an expandable segment was unmapped.
    SegmentUnmap = 6,
    /// A snapshot was taken; `size` is the active total.
    Snapshot = 7,
    /// A request failed; `address` holds the device's free bytes ([`FREE_UNKNOWN`] when not recorded), `size`
    /// the rounded request.
    Oom = 8,
    /// A live block was given a note (in the event's user metadata).
    Annotate = 9,
    /// An action that this version does not know; its name is in [`Events::other_actions`].
    Other = 10,
}

impl Action {
    /// Every action in order of its code.
    pub const ALL: [Self; 11] = [
        Self::Alloc,
        Self::FreeRequested,
        Self::FreeCompleted,
        Self::SegmentAlloc,
        Self::SegmentFree,
        Self::SegmentMap,
        Self::SegmentUnmap,
        Self::Snapshot,
        Self::Oom,
        Self::Annotate,
        Self::Other,
    ];

    /// PyTorch's name of the action; `other` for an unknown one.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::Snapshot => "snapshot",
            Self::Oom => "oom",
            Self::Annotate => "annotate",
            Self::Other => "other",
        }
    }

    /// The action called `name`, or `None`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL[..10].iter().copied().find(|action| action.name() == name)
    }

    /// The action with this code in the trace format.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }
}

/// Stands in the time column where an event has no time.
pub const NO_TIME: i64 = i64::MIN;

/// A column that most traces leave at its default and that then costs nothing: only the part up to the
/// last non-default value is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionalColumn<T> {
    values: Vec<T>,
}

impl<T: Copy + Default + PartialEq> OptionalColumn<T> {
    /// A column from its stored prefix.
    #[must_use]
    pub fn from_values(values: Vec<T>) -> Self {
        Self { values }
    }

    /// The value of row `row`; the default beyond the stored part.
    #[must_use]
    pub fn get(&self, row: usize) -> T {
        self.values.get(row).copied().unwrap_or_default()
    }

    /// Sets the value of `row`; rows are set in ascending order.
    pub fn set(&mut self, row: usize, value: T) {
        if value == T::default() && row >= self.values.len() {
            return;
        }
        if row >= self.values.len() {
            self.values.resize(row + 1, T::default());
        }
        self.values[row] = value;
    }

    /// Whether every row is at its default.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.values.is_empty()
    }

    /// The stored prefix.
    #[must_use]
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// A copy of the rows `range`.
    fn slice(&self, range: &Range<usize>) -> Self {
        let end = range.end.min(self.values.len());
        Self { values: self.values[range.start.min(end)..end].to_vec() }
    }

    /// Takes off the rows from `at` on.
    fn split_off(&mut self, at: usize) -> Self {
        let behind = if at < self.values.len() { self.values.split_off(at) } else { Vec::new() };
        let filled = self.values.iter().rposition(|value| *value != T::default()).map_or(0, |last| last + 1);
        self.values.truncate(filled);
        Self { values: behind }
    }

    /// Puts the rows of `more` behind the first `rows` rows, which are all that this column has.
    fn append(&mut self, rows: usize, more: Self) {
        if !more.values.is_empty() {
            self.values.resize(rows, T::default());
            self.values.extend(more.values);
        }
    }
}

/// One event as a row, for building and for showing. The columns are in [`Events`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub action: Action,
    /// Unix time in microseconds, or [`NO_TIME`].
    pub time_us: i64,
    /// Device address; for [`Action::Oom`] the device's free bytes.
    pub address: u64,
    /// Bytes; see [`Action`] for which.
    pub size: u64,
    /// CUDA stream (raw pointer value, 0 is the default stream).
    pub stream: u64,
    /// Who did it; [`StackId::NONE`] when not recorded.
    pub stack: StackId,
}

/// Events of one device in the order in which the allocator recorded them. Row `i` of every column is
/// event `i`; the optional columns may be shorter (see [`OptionalColumn`]).
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// What happened.
    pub actions: Vec<Action>,
    /// Unix microseconds, [`NO_TIME`] where an event has none.
    pub times_us: Vec<i64>,
    /// Device addresses; free bytes of the device for an OOM.
    pub addresses: Vec<u64>,
    /// Bytes.
    pub sizes: Vec<u64>,
    /// Index into [`Events::stream_values`].
    pub streams: Vec<u32>,
    /// Stack of the call.
    pub stacks: Vec<StackId>,
    /// Index + 1 into the trace's pool list; 0 when the event does not carry its pool.
    pub pools: OptionalColumn<u32>,
    /// `compile_context`; the empty string also stands for PyTorch's "N/A".
    pub compile_contexts: OptionalColumn<StringId>,
    /// `user_metadata`.
    pub user_metadata: OptionalColumn<StringId>,
    /// `internal_metadata`.
    pub internal_metadata: OptionalColumn<StringId>,
    /// `forward_frames`, joined by newlines.
    pub forward_frames: OptionalColumn<StringId>,
    /// Names of actions that this version does not know, by event, ascending.
    pub other_actions: Vec<(u64, StringId)>,
    /// Distinct streams in order of first appearance.
    pub stream_values: Vec<u64>,
}

impl Events {
    /// How many events there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.actions.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// Event `index` as a row.
    ///
    /// # Panics
    /// When `index` is not below [`Events::len`].
    #[must_use]
    pub fn get(&self, index: usize) -> Event {
        Event {
            action: self.actions[index],
            time_us: self.times_us[index],
            address: self.addresses[index],
            size: self.sizes[index],
            stream: self.stream(index),
            stack: self.stacks[index],
        }
    }

    /// CUDA stream of event `index`.
    #[must_use]
    pub fn stream(&self, index: usize) -> u64 {
        self.stream_values.get(self.streams[index] as usize).copied().unwrap_or(0)
    }

    /// The column value of `stream`, entered if new. Few streams exist, so a scan from the newest is fast.
    pub fn stream_index(&mut self, stream: u64) -> u32 {
        if let Some(found) = self.stream_values.iter().rposition(|&known| known == stream) {
            return found as u32;
        }
        self.stream_values.push(stream);
        (self.stream_values.len() - 1) as u32
    }

    /// Appends an event; the optional columns stay at their defaults.
    pub fn push(&mut self, event: Event) {
        let stream = self.stream_index(event.stream);
        self.actions.push(event.action);
        self.times_us.push(event.time_us);
        self.addresses.push(event.address);
        self.sizes.push(event.size);
        self.streams.push(stream);
        self.stacks.push(event.stack);
    }

    /// Whether any event carries a time.
    #[must_use]
    pub fn has_times(&self) -> bool {
        self.times_us.iter().any(|&time| time != NO_TIME)
    }

    /// A copy of the events `range`, as far as they exist. Streams keep their numbers.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        let Range { start, end } = range;
        let start = start.min(self.len());
        let range = start..end.clamp(start, self.len());
        let from = range.start as u64;
        let place = |event: usize| self.other_actions.partition_point(|&(other, _)| other < event as u64);
        let others = self.other_actions[place(range.start)..place(range.end)].iter();
        Self {
            actions: self.actions[range.clone()].to_vec(),
            times_us: self.times_us[range.clone()].to_vec(),
            addresses: self.addresses[range.clone()].to_vec(),
            sizes: self.sizes[range.clone()].to_vec(),
            streams: self.streams[range.clone()].to_vec(),
            stacks: self.stacks[range.clone()].to_vec(),
            pools: self.pools.slice(&range),
            compile_contexts: self.compile_contexts.slice(&range),
            user_metadata: self.user_metadata.slice(&range),
            internal_metadata: self.internal_metadata.slice(&range),
            forward_frames: self.forward_frames.slice(&range),
            other_actions: others.map(|&(event, name)| (event - from, name)).collect(),
            stream_values: self.stream_values.clone(),
        }
    }

    /// Takes off the events from `at` on. Streams keep their numbers.
    #[must_use]
    pub fn split_off(&mut self, at: usize) -> Self {
        let at = at.min(self.len());
        let others = self.other_actions.partition_point(|&(event, _)| event < at as u64);
        let others = self.other_actions.split_off(others);
        Self {
            actions: self.actions.split_off(at),
            times_us: self.times_us.split_off(at),
            addresses: self.addresses.split_off(at),
            sizes: self.sizes.split_off(at),
            streams: self.streams.split_off(at),
            stacks: self.stacks.split_off(at),
            pools: self.pools.split_off(at),
            compile_contexts: self.compile_contexts.split_off(at),
            user_metadata: self.user_metadata.split_off(at),
            internal_metadata: self.internal_metadata.split_off(at),
            forward_frames: self.forward_frames.split_off(at),
            other_actions: others.into_iter().map(|(event, name)| (event - at as u64, name)).collect(),
            stream_values: self.stream_values.clone(),
        }
    }

    /// Puts `more` behind the last event. Both must number streams alike: [`Events::stream_values`] of one begins with
    /// those of the other, as in pieces of one recording.
    pub fn append(&mut self, more: Self) {
        let rows = self.len();
        self.actions.extend(more.actions);
        self.times_us.extend(more.times_us);
        self.addresses.extend(more.addresses);
        self.sizes.extend(more.sizes);
        self.streams.extend(more.streams);
        self.stacks.extend(more.stacks);
        self.pools.append(rows, more.pools);
        self.compile_contexts.append(rows, more.compile_contexts);
        self.user_metadata.append(rows, more.user_metadata);
        self.internal_metadata.append(rows, more.internal_metadata);
        self.forward_frames.append(rows, more.forward_frames);
        let others = more.other_actions.into_iter().map(|(event, name)| (event + rows as u64, name));
        self.other_actions.extend(others);
        if more.stream_values.len() > self.stream_values.len() {
            self.stream_values = more.stream_values;
        }
    }

    /// Makes room for `additional` events in every full column.
    pub fn reserve(&mut self, additional: usize) {
        self.actions.reserve(additional);
        self.times_us.reserve(additional);
        self.addresses.reserve(additional);
        self.sizes.reserve(additional);
        self.streams.reserve(additional);
        self.stacks.reserve(additional);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_survive_their_name_and_code() {
        for action in Action::ALL {
            assert_eq!(Action::from_code(action as u8), Some(action));
        }
        assert_eq!(Action::from_name("free_completed"), Some(Action::FreeCompleted));
        assert_eq!(Action::from_name("user_defined"), None);
    }

    #[test]
    fn optional_columns_cost_nothing_until_used() {
        let mut column = OptionalColumn::<u32>::default();
        column.set(5, 0);
        assert!(column.is_default());
        column.set(7, 3);
        assert_eq!((column.get(6), column.get(7), column.get(8)), (0, 3, 0));
    }

    #[test]
    fn events_taken_apart_and_put_together_are_the_same() {
        let mut events = Events::default();
        for number in 0..9 {
            events.push(Event {
                action: Action::Alloc,
                time_us: number as i64,
                address: number * 512,
                size: number,
                stream: number % 3,
                stack: StackId(number as u32),
            });
        }
        events.user_metadata.set(2, StringId(5));
        events.user_metadata.set(6, StringId(7));
        events.other_actions = vec![(1, StringId(1)), (8, StringId(2))];
        for at in 0..=10 {
            let mut front = events.clone();
            let behind = front.split_off(at);
            assert_eq!(events.slice(at..99).other_actions, behind.other_actions);
            assert_eq!(events.slice(at..99).sizes, behind.sizes);
            assert_eq!(events.slice(0..at).user_metadata.get(2), front.user_metadata.get(2));
            assert_eq!((front.len(), behind.len()), (at.min(9), 9 - at.min(9)));
            front.append(behind);
            assert_eq!(format!("{front:?}"), format!("{events:?}"), "{at}");
        }
    }

    #[test]
    fn streams_are_numbered_once() {
        let mut events = Events::default();
        assert_eq!(events.stream_index(0), 0);
        assert_eq!(events.stream_index(0x7f00), 1);
        assert_eq!(events.stream_index(0), 0);
    }
}
