//! What a replay gives: totals, peaks, the course of reserved bytes.

/// Totals of the model at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// Bytes of blocks handed out.
    pub allocated: u64,
    /// Plus blocks that wait for other streams.
    pub active: u64,
    /// Held from the driver.
    pub reserved: u64,
    /// How often everything cached was released for one request.
    pub retries: u64,
}

/// Peaks and the course of reserved bytes, kept along with a replay.
#[derive(Clone, Debug, Default)]
pub(super) struct Track {
    pub(super) peak_reserved: u64,
    pub(super) peak_allocated: u64,
    /// Event at which reserved bytes peak, and active bytes after it.
    pub(super) peak_event: u32,
    pub(super) active_at_peak: u64,
    /// Whether the request that raised the peak is still to be counted as active.
    peak_is_open: bool,
    /// (event, reserved bytes after it), where they change.
    pub(super) course: Vec<(u32, u64)>,
}

impl Track {
    #[inline]
    pub(super) fn raise(&mut self, figures: &Figures, event: u32) {
        self.peak_allocated = self.peak_allocated.max(figures.allocated);
        if self.peak_is_open {
            self.peak_is_open = false;
            if self.peak_event == event {
                self.active_at_peak = figures.active;
            }
        }
    }

    pub(super) fn reserved_changed(&mut self, figures: &Figures, event: u32) {
        if figures.reserved > self.peak_reserved {
            self.peak_reserved = figures.reserved;
            self.peak_event = event;
            self.active_at_peak = figures.active;
            self.peak_is_open = true;
        }
        match self.course.last_mut() {
            Some(last) if last.0 == event => last.1 = figures.reserved,
            _ => self.course.push((event, figures.reserved)),
        }
    }
}

/// Result of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Most bytes held from the driver.
    pub peak_reserved_bytes: u64,
    /// Most bytes handed out.
    pub peak_allocated_bytes: u64,
    /// Event at which reserved bytes first reach their peak.
    pub peak_event: u64,
    /// Active bytes once that event's request is served.
    pub active_at_peak_bytes: u64,
    /// Held after the last request that was replayed.
    pub end_reserved_bytes: u64,
    /// First request that failed. A request that the recording saw succeed ends the replay here.
    pub oom_event: Option<u64>,
    /// How often everything cached was released for one request.
    pub retries: u64,
    /// How many requests and frees were replayed.
    pub steps: u64,
    /// (event, reserved bytes after it), where they change.
    pub course: Vec<(u32, u64)>,
}

impl Outcome {
    /// Reserved bytes after event `event`.
    #[must_use]
    pub fn reserved_at(&self, event: u64) -> u64 {
        let at = self.course.partition_point(|&(changed, _)| u64::from(changed) <= event);
        at.checked_sub(1).map_or(0, |at| self.course[at].1)
    }

    /// Share of the peak that no active block used, 0 to 1.
    #[must_use]
    pub fn fragmentation_at_peak(&self) -> f64 {
        if self.peak_reserved_bytes == 0 {
            return 0.0;
        }
        1.0 - self.active_at_peak_bytes as f64 / self.peak_reserved_bytes as f64
    }
}
