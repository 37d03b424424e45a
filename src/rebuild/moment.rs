//! Moments and amounts: where in a trace we are, and how much memory is in use there.

/// A position in an event list: how many events have been applied. `Moment(0)` is before the first event,
/// `Moment(n)` is after event `n - 1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Moment(pub u64);

impl Moment {
    /// The moment right after event `event`.
    #[must_use]
    pub fn after(event: u64) -> Self {
        Self(event + 1)
    }

    /// The last event applied, or `None` before the first.
    #[must_use]
    pub fn event(self) -> Option<u64> {
        self.0.checked_sub(1)
    }
}

/// The four counters of the allocator, in bytes, as `torch.cuda.memory_stats()` counts them.
///
/// `requested_bytes` is PyTorch's counter: it falls when a free *completes*, like `active_bytes`, so while
/// frees are pending it may exceed `allocated_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Asked for, over active blocks.
    pub requested_bytes: u64,
    /// Blocks handed out.
    pub allocated_bytes: u64,
    /// Plus blocks whose free waits for another stream.
    pub active_bytes: u64,
    /// Held from the driver.
    pub reserved_bytes: u64,
}

/// The maximum of a counter and the first moment at which it is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// The maximum.
    pub bytes: u64,
    /// When it is first reached.
    pub moment: Moment,
}

impl Peak {
    /// Takes `bytes` in at `moment`; an equal value keeps the earlier moment.
    #[inline]
    pub fn raise(&mut self, bytes: u64, moment: Moment) {
        if bytes > self.bytes {
            *self = Self { bytes, moment };
        }
    }
}

/// Each counter's own maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peaks {
    /// Of requested bytes.
    pub requested: Peak,
    /// Of allocated bytes.
    pub allocated: Peak,
    /// Of active bytes.
    pub active: Peak,
    /// Of reserved bytes.
    pub reserved: Peak,
}

impl Peaks {
    /// All four at `usage` and `moment`.
    #[must_use]
    pub fn starting_at(usage: Usage, moment: Moment) -> Self {
        let peak = |bytes| Peak { bytes, moment };
        Self {
            requested: peak(usage.requested_bytes),
            allocated: peak(usage.allocated_bytes),
            active: peak(usage.active_bytes),
            reserved: peak(usage.reserved_bytes),
        }
    }

    /// Takes `usage` in at `moment`.
    #[inline]
    pub fn raise(&mut self, usage: Usage, moment: Moment) {
        self.requested.raise(usage.requested_bytes, moment);
        self.allocated.raise(usage.allocated_bytes, moment);
        self.active.raise(usage.active_bytes, moment);
        self.reserved.raise(usage.reserved_bytes, moment);
    }
}
