//! The time that the recorder itself takes of the program's calls.
//!
//! Owns the clock, the sum and the worst. Beside what the driver does, which lasts from a microsecond to milliseconds
//! and never twice as long, this cannot be measured from outside.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A reading of the processor's counter, which costs a hundredth of a call. Its speed is found out at the end.
#[cfg(target_arch = "x86_64")]
pub(crate) fn ticks() -> u64 {
    // SAFETY: reads a counter.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// See above.
#[cfg(target_arch = "aarch64")]
pub(crate) fn ticks() -> u64 {
    let ticks: u64;
    // SAFETY: reads a counter.
    unsafe {
        std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags))
    };
    ticks
}

/// Ticks since an earlier reading; none where another processor's counter lags behind.
pub(crate) fn since(start: u64) -> u64 {
    ticks().saturating_sub(start)
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct OwnTime {
    /// Where both clocks were at the beginning.
    start: (u64, Instant),
    sum: AtomicU64,
    most: AtomicU64,
}

/// Nanoseconds of all calls, and of the one that cost most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) own_ns: u64,
    pub(crate) own_max_ns: u64,
}

impl OwnTime {
    pub(crate) fn new() -> Self {
        Self { start: (ticks(), Instant::now()), sum: AtomicU64::new(0), most: AtomicU64::new(0) }
    }

    /// Adds what a call has cost.
    pub(crate) fn add(&self, ticks: u64) {
        self.sum.fetch_add(ticks, Ordering::Relaxed);
        if ticks > self.most.load(Ordering::Relaxed) {
            self.most.fetch_max(ticks, Ordering::Relaxed);
        }
    }

    /// Both clocks have run since the beginning, which gives the counter's speed.
    pub(crate) fn sums(&self) -> Sums {
        let (ticks, time) = (since(self.start.0).max(1), self.start.1.elapsed().as_nanos());
        let ns = |part: &AtomicU64| {
            let part = u128::from(part.load(Ordering::Relaxed));
            u64::try_from(part * time / u128::from(ticks)).unwrap_or(u64::MAX)
        };
        Sums { own_ns: ns(&self.sum), own_max_ns: ns(&self.most) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn ticks_become_nanoseconds() {
        let own = OwnTime::new();
        let (start, clock) = (ticks(), Instant::now());
        std::thread::sleep(Duration::from_millis(20));
        own.add(since(start));
        own.add(since(start));
        let most = 2 * clock.elapsed().as_nanos() as u64;
        let Sums { own_ns, own_max_ns } = own.sums();
        assert!((39_000_000..=most + 1_000_000).contains(&own_ns), "{own_ns} {most}");
        assert!(own_max_ns >= own_ns / 2 && own_max_ns < own_ns, "{own_max_ns} {own_ns}");
    }
}
