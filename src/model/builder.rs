//! Small traces that read like a story, for tests and generators.

use super::{Action, DeviceId, Event, Frame, Segment, SettingValue, StackId, Trace};

/// Builds a [`Trace`] event by event; time advances by 10 us per event unless set.
///
/// ```
/// use memlab::model::TraceBuilder;
/// let trace = TraceBuilder::new()
///     .segment_alloc(0x1000_0000, 2 << 20)
///     .at("train.py", 12, "step")
///     .alloc(0x1000_0000, 4096)
///     .free(0x1000_0000, 4096)
///     .build();
/// assert_eq!(trace.event_count(), 4);
/// ```
#[derive(Clone, Debug)]
pub struct TraceBuilder {
    trace: Trace,
    device: DeviceId,
    stream: u64,
    stack: StackId,
    time_us: i64,
}

impl Default for TraceBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl TraceBuilder {
    /// An empty, complete trace; device 0, default stream, no stack.
    #[must_use]
    pub fn new() -> Self {
        let trace = Trace { complete: true, ..Trace::default() };
        Self { trace, device: DeviceId(0), stream: 0, stack: StackId::NONE, time_us: 1_000_000 }
    }

    /// Later events happen on `device`.
    #[must_use]
    pub fn device(mut self, device: u32) -> Self {
        self.device = DeviceId(device);
        self
    }

    /// Later events happen on `stream`.
    #[must_use]
    pub fn stream(mut self, stream: u64) -> Self {
        self.stream = stream;
        self
    }

    /// Later events come from this one source position.
    #[must_use]
    pub fn at(self, file: &str, line: u64, function: &str) -> Self {
        self.stack(&[(file, line, function)])
    }

    /// Later events come from this stack, innermost frame first.
    #[must_use]
    pub fn stack(mut self, frames: &[(&str, u64, &str)]) -> Self {
        let ids: Vec<_> = frames
            .iter()
            .map(|&(file, line, function)| {
                let file = self.trace.strings.intern(file);
                let function = self.trace.strings.intern(function);
                self.trace.frames.intern(Frame { function, file, line })
            })
            .collect();
        self.stack = self.trace.stacks.intern(&ids);
        self
    }

    /// Appends an event as it stands.
    #[must_use]
    pub fn event(mut self, action: Action, address: u64, size: u64) -> Self {
        let event =
            Event { action, time_us: self.time_us, address, size, stream: self.stream, stack: self.stack };
        self.trace.device_mut(self.device).events.push(event);
        self.time_us += 10;
        self
    }

    /// A segment is obtained.
    #[must_use]
    pub fn segment_alloc(self, address: u64, size: u64) -> Self {
        self.event(Action::SegmentAlloc, address, size)
    }

    /// A segment is returned.
    #[must_use]
    pub fn segment_free(self, address: u64, size: u64) -> Self {
        self.event(Action::SegmentFree, address, size)
    }

    /// A block is handed out for `size` requested bytes.
    #[must_use]
    pub fn alloc(self, address: u64, size: u64) -> Self {
        self.event(Action::Alloc, address, size)
    }

    /// A block is given back and free at once.
    #[must_use]
    pub fn free(self, address: u64, size: u64) -> Self {
        self.free_requested(address, size).free_completed(address, size)
    }

    /// A block is given back.
    #[must_use]
    pub fn free_requested(self, address: u64, size: u64) -> Self {
        self.event(Action::FreeRequested, address, size)
    }

    /// A block becomes reusable.
    #[must_use]
    pub fn free_completed(self, address: u64, size: u64) -> Self {
        self.event(Action::FreeCompleted, address, size)
    }

    /// A request of `size` (rounded) bytes fails with `free` bytes left on the device.
    #[must_use]
    pub fn oom(self, size: u64, free: u64) -> Self {
        self.event(Action::Oom, free, size)
    }

    /// States the final segments of the current device.
    #[must_use]
    pub fn segments(mut self, segments: Vec<Segment>) -> Self {
        self.trace.device_mut(self.device).segments = Some(segments);
        self
    }

    /// States a setting.
    #[must_use]
    pub fn setting(mut self, key: &str, value: SettingValue) -> Self {
        self.trace.settings.values.insert(key.to_owned(), value);
        self
    }

    /// The trace.
    #[must_use]
    pub fn build(self) -> Trace {
        self.trace
    }
}
