//! How little memory the requests could do with, whatever the allocator.
//!
//! Owns lives (what is live when), the highest live total, which nothing can beat, and the best of several
//! packings of lives into one range, which a planner with foresight reaches. Streams are not kept apart:
//! a free has completed before its place is taken again.

mod offline;
mod online;

use super::requests::{Requests, Step, What};
use crate::rebuild::{MIN_BLOCK_BYTES, NONE};

/// A request's life. Times count requests: it lives from its own number up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Requested bytes.
    pub bytes: u64,
    /// Its number among all requests.
    pub begin: u32,
    /// Number of the first request that comes after its free.
    pub end: u32,
}

impl Life {
    fn room(&self) -> u64 {
        self.bytes.div_ceil(MIN_BLOCK_BYTES).saturating_mul(MIN_BLOCK_BYTES)
    }
}

/// A placement of lives in one range of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packing {
    /// Length of the range.
    pub bytes: u64,
    /// Which way of placing gave it.
    pub method: &'static str,
    /// Offset of each life.
    pub offsets: Vec<u64>,
}

/// Lower bounds of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Highest total of requested bytes that are live at one time.
    pub live_peak_bytes: u64,
    /// Length of the best packing found.
    pub packed_bytes: u64,
    /// How it was found.
    pub method: &'static str,
}

/// Both bounds of `requests`.
#[must_use]
pub fn bounds(requests: &Requests) -> Bounds {
    let lives = lives(requests);
    let packing = pack(&lives);
    Bounds { live_peak_bytes: live_peak(&lives), packed_bytes: packing.bytes, method: packing.method }
}

/// What is live when, by number of the request; blocks from before the recording come first.
#[must_use]
pub fn lives(requests: &Requests) -> Vec<Life> {
    let mut lives: Vec<Life> = Vec::new();
    let mut number_of = vec![NONE; requests.sizes.len()];
    let initial = requests.initial.segments.iter().flat_map(|segment| &segment.blocks);
    let before = initial.map(|block| block.allocation);
    let before = before.filter(|&row| row != NONE && requests.sizes[row as usize] > 0);
    for (row, is_end) in before.map(|row| (row, false)).chain(requests.steps.iter().filter_map(begin_or_end))
    {
        let number = lives.len() as u32;
        if !is_end {
            number_of[row as usize] = number;
            lives.push(Life { bytes: requests.sizes[row as usize], begin: number, end: u32::MAX });
        } else if let Some(life) = lives.get_mut(number_of[row as usize] as usize) {
            life.end = life.end.min(number);
        }
    }
    lives
}

/// Row of a step that begins (`false`) or ends (`true`) a life.
fn begin_or_end(step: &Step) -> Option<(u32, bool)> {
    match step.what {
        What::Alloc | What::AllocRetried | What::AllocFailed => Some((step.row, false)),
        What::Free | What::CompleteFree => Some((step.row, true)),
        What::RequestFree | What::EmptyCache => None,
    }
}

/// The highest total of live bytes.
#[must_use]
pub fn live_peak(lives: &[Life]) -> u64 {
    peak(lives).0
}

/// The highest total of live bytes, and the first time at which it is reached.
fn peak(lives: &[Life]) -> (u64, u32) {
    let mut ends: Vec<(u32, u64)> = lives.iter().map(|life| (life.end, life.bytes)).collect();
    ends.sort_unstable();
    let mut ends = ends.into_iter().peekable();
    let (mut live, mut peak) = (0u64, (0u64, 0));
    for life in lives {
        while let Some((_, bytes)) = ends.next_if(|&(end, _)| end <= life.begin) {
            live = live.saturating_sub(bytes);
        }
        live = live.saturating_add(life.bytes);
        if live > peak.0 {
            peak = (live, life.begin);
        }
    }
    peak
}

/// The best of a portfolio of packings; the search ends when one cannot be beaten. Ways that would take too
/// long on these lives are left out.
#[must_use]
pub fn pack(lives: &[Life]) -> Packing {
    let rooms: Vec<Life> = lives.iter().map(|life| Life { bytes: life.room(), ..*life }).collect();
    let (floor, peak) = peak(&rooms);
    let mut best: Option<Packing> = None;
    for method in Method::ALL {
        let Some(packing) = method.pack(lives, peak) else { break };
        if best.as_ref().is_none_or(|best| packing.bytes < best.bytes) {
            best = Some(packing);
        }
        if best.as_ref().is_some_and(|best| best.bytes <= floor) {
            break;
        }
    }
    best.unwrap_or_default()
}

/// In which order lives are placed with foresight.
#[derive(Clone, Copy)]
enum Order {
    /// The largest first.
    Size,
    /// The longest-lived first.
    Length,
    /// What is live at the peak first, then the largest.
    Peak,
}

/// A way to place lives.
#[derive(Clone, Copy)]
enum Method {
    Online(online::Choice),
    Offline(Order, offline::Gap),
}

impl Method {
    /// The quick ones first; one that takes too long ends the search, as the later ones would too.
    const ALL: [Self; 6] = [
        Self::Online(online::Choice::Tightest),
        Self::Online(online::Choice::Lowest),
        Self::Offline(Order::Size, offline::Gap::Lowest),
        Self::Offline(Order::Peak, offline::Gap::Lowest),
        Self::Offline(Order::Length, offline::Gap::Lowest),
        Self::Offline(Order::Size, offline::Gap::Tightest),
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Online(online::Choice::Tightest) => "in time order, tightest hole",
            Self::Online(online::Choice::Lowest) => "in time order, lowest hole",
            Self::Offline(Order::Size, offline::Gap::Lowest) => "largest first, lowest gap",
            Self::Offline(Order::Size, offline::Gap::Tightest) => "largest first, tightest gap",
            Self::Offline(Order::Length, _) => "longest-lived first",
            Self::Offline(Order::Peak, _) => "live at the peak first",
        }
    }

    fn pack(self, lives: &[Life], peak: u32) -> Option<Packing> {
        let offsets = match self {
            Self::Online(choice) => online::place(lives, choice)?,
            Self::Offline(order, gap) => {
                offline::place(lives, gap, |life| order.key(life, lives.len(), peak))?
            }
        };
        let ends = lives.iter().zip(&offsets).map(|(life, offset)| offset.saturating_add(life.room()));
        Some(Packing { bytes: ends.max().unwrap_or(0), method: self.name(), offsets })
    }
}

impl Order {
    /// Lives with a higher key are placed first. `peak` is a time at which most bytes are live.
    fn key(self, life: &Life, lives: usize, peak: u32) -> (bool, u128, u64) {
        let length = u64::from(life.end.min(lives as u32) - life.begin);
        let (room, wide) = (life.room(), u128::from(life.room()));
        match self {
            Self::Length => (false, u128::from(length), room),
            Self::Peak if life.begin <= peak && peak < life.end => (true, u128::from(length), room),
            Self::Peak | Self::Size => (false, wide, length),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn life(bytes: u64, begin: u32, end: u32) -> Life {
        Life { bytes, begin, end }
    }

    #[test]
    fn foresight_beats_time_order() {
        // 1 KiB is freed while 2 KiB live behind it; 3 KiB then find no hole unless placed first.
        let lives = [life(1024, 0, 2), life(2048, 1, 4), life(3072, 2, 4)];
        assert_eq!(live_peak(&lives), 5120);
        assert_eq!(pack(&lives).bytes, 5120);
        assert_eq!(Method::Online(online::Choice::Lowest).pack(&lives, 2).unwrap().bytes, 6144);
    }

    #[test]
    fn nothing_needs_nothing() {
        assert_eq!(pack(&[]).bytes, 0);
        assert_eq!(live_peak(&[]), 0);
    }
}
