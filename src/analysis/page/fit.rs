//! How much detail a device gets: all of it if that fits, else windows around what matters, as wide as fits.
//!
//! Owns the search. It measures packed sizes, a handful of times, and takes no clock and no chance into
//! account: the same recording always gives the same page.

use std::ops::RangeInclusive;

use crate::report::html::blob::{PageDevice, pack, packed_bytes};
use crate::tables::{self, Detail, Levels, Lifetimes, Limits, Sources};

use super::header::header;

/// A longer recording is not even tried as a whole: the try would cost more than it could give.
const MOST_COMPLETE_EVENTS: u64 = 4_000_000;
/// The most allocations that are drawn for their size alone.
const MOST_LARGE_ROWS: u64 = 40_000;
/// Of base64, about four times what one takes: the large allocations get a quarter of the room.
const BYTES_PER_LARGE_ROW: u64 = 30;
/// Windows around so many moments at most.
const CENTRES: u64 = 6;
/// No event takes fewer bytes of base64 than this part of one, so a recording that cannot fit is not tried.
const EVENTS_PER_BYTE: u64 = 4;
/// Windows narrower than this show nothing.
const NARROWEST: u64 = 16;
/// Tries at the width of the windows.
const TRIES: usize = 5;

/// The device in at most `budget` bytes of base64.
pub(in crate::analysis) fn page_device(
    sources: Sources<'_>,
    total_bytes: Option<u64>,
    budget: u64,
) -> PageDevice {
    let mut limits = Some(Limits::default());
    let mut smallest = PageDevice::default();
    while let Some(now) = limits {
        let lifetimes = Lifetimes::new(sources, &now);
        let mut fitting = Fitting { sources, total_bytes, budget, lifetimes, levels: None };
        // What is always there must leave half of the room to what it is there for.
        if packed_bytes(&fitting.made(&Detail::default(), false).packed) <= budget / 2 {
            return fitting.fit();
        }
        limits = now.smaller();
        if limits.is_none() {
            smallest = fitting.fit();
        }
    }
    smallest
}

struct Fitting<'a> {
    sources: Sources<'a>,
    total_bytes: Option<u64>,
    budget: u64,
    lifetimes: Lifetimes<'a>,
    levels: Option<Levels>,
}

impl Fitting<'_> {
    fn fit(&mut self) -> PageDevice {
        self.complete().unwrap_or_else(|| {
            self.settle_levels();
            self.windows()
        })
    }

    fn made(&mut self, detail: &Detail, complete: bool) -> PageDevice {
        let drawn = self.lifetimes.draw(detail);
        let levels = self.levels.as_ref();
        let header =
            header(self.sources, self.total_bytes, &mut self.lifetimes, detail, &drawn, levels, complete);
        let moments = detail.windows.iter().map(|window| window.end() - window.start() + 1).sum();
        PageDevice {
            device: self.sources.device.device.0,
            events: self.sources.history.events,
            complete,
            moments,
            packed: pack(&header),
        }
    }

    fn fits(&self, made: &PageDevice) -> bool {
        packed_bytes(&made.packed) <= self.budget
    }

    /// Every moment, if that fits.
    fn complete(&mut self) -> Option<PageDevice> {
        let events = self.sources.history.events;
        if events > MOST_COMPLETE_EVENTS || events / EVENTS_PER_BYTE > self.budget {
            return None;
        }
        let detail = Detail { windows: vec![0..=events], large_bytes: None };
        let made = self.made(&detail, true);
        self.fits(&made).then_some(made)
    }

    /// Levels in as many cells as a third of the room can take.
    fn settle_levels(&mut self) {
        let bare = packed_bytes(&self.made(&Detail::default(), false).packed);
        self.levels = Some(tables::levels(self.sources, &self.lifetimes));
        loop {
            let with_levels = packed_bytes(&self.made(&Detail::default(), false).packed);
            if with_levels.saturating_sub(bare) <= self.budget / 3 {
                return;
            }
            let Some(levels) = self.levels.take() else { return };
            if levels.len() < 32 {
                self.levels = Some(levels);
                return;
            }
            self.levels = Some(levels.halved());
        }
    }

    /// The widest windows that were found to fit. The large allocations get a part of the room, if it is large
    /// enough for windows, too.
    fn windows(&mut self) -> PageDevice {
        let rows = (self.budget / BYTES_PER_LARGE_ROW).min(MOST_LARGE_ROWS) as usize;
        let large_bytes = tables::large_threshold(self.sources.history, rows);
        // Where very much is live at once, a window alone may be too much: then fewer of them.
        let choices = [(large_bytes, CENTRES), (None, CENTRES), (None, 3), (None, 1)];
        let mut found = PageDevice::default();
        for (large_bytes, centres) in choices {
            found = self.widest(large_bytes, centres);
            if self.fits(&found) && found.moments > 0 {
                return found;
            }
        }
        found
    }

    /// The widest windows beside the large allocations; none where none fits.
    fn widest(&mut self, large_bytes: Option<u64>, centres: u64) -> PageDevice {
        let mut best = self.made(&Detail { windows: Vec::new(), large_bytes }, false);
        let bare = packed_bytes(&best.packed);
        let mut search = Search::new(self.budget, bare, self.sources.history.events, centres);
        for _ in 0..TRIES {
            let windows = self.around(search.next, centres);
            let made = self.made(&Detail { windows, large_bytes }, false);
            let bytes = packed_bytes(&made.packed);
            if bytes <= self.budget && made.moments >= best.moments {
                best = made;
            }
            if search.is_done(bytes) {
                break;
            }
        }
        best
    }

    fn around(&self, moments: u64, centres: u64) -> Vec<RangeInclusive<u64>> {
        tables::windows_around(self.sources.history, self.sources.steps, moments, centres as usize)
    }
}

/// The search for the widest windows: between the widest that fit and the narrowest that do not, in
/// proportion to what the last try took.
struct Search {
    budget: u64,
    /// Bytes without any window.
    bare: u64,
    /// The width to try next.
    next: u64,
    fits: u64,
    fails: u64,
}

impl Search {
    fn new(budget: u64, bare: u64, events: u64, centres: u64) -> Self {
        let room = budget.saturating_sub(bare);
        // More moments than a whole recording may have would be as slow to open.
        let widest = events.clamp(NARROWEST, MOST_COMPLETE_EVENTS / centres);
        // Some three bytes an event.
        let next = (room / (3 * centres)).clamp(NARROWEST, widest);
        Self { budget, bare, next, fits: 0, fails: widest + 1 }
    }

    /// Takes note of how many bytes the last try took; true when another one is not worth it.
    fn is_done(&mut self, bytes: u64) -> bool {
        let (room, used) = (self.budget.saturating_sub(self.bare), bytes.saturating_sub(self.bare).max(1));
        if bytes <= self.budget {
            self.fits = self.next;
            if bytes >= self.budget / 100 * 93 {
                return true;
            }
        } else {
            self.fails = self.next;
        }
        let scaled = u128::from(self.next) * u128::from(room) * 97 / (u128::from(used) * 100);
        let mut aimed = u64::try_from(scaled).unwrap_or(u64::MAX);
        if self.fits == 0 {
            // What is live anyway takes room, however narrow the windows are.
            aimed = aimed.min(self.next / 3);
        }
        if self.fails <= self.fits + 1 || self.fails <= NARROWEST {
            return true;
        }
        self.next = aimed.clamp((self.fits + 1).max(NARROWEST), self.fails - 1);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_finds_a_width_that_nearly_fills_the_room() {
        for per_moment in [2u64, 7, 40] {
            let mut search = Search::new(1_000_000, 100_000, 50_000_000, CENTRES);
            let mut widest = 0;
            for _ in 0..TRIES {
                let bytes = 100_000 + 20_000 + search.next * per_moment;
                if bytes <= 1_000_000 {
                    widest = bytes;
                }
                if search.is_done(bytes) {
                    break;
                }
            }
            assert!(widest > 900_000, "{per_moment}: {widest}");
        }
    }
}
