//! How little memory the requests could do with, whatever the allocator.
//!
//! Owns lives (what is live when), the highest live total, which nothing can beat, and the best of several
//! packings of lives into one range, which a planner with foresight reaches. Streams are not kept apart:
//! a free has completed before its place is taken again.

mod offline;
mod online;

use rayon::prelude::*;

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
    for (row, is_end) in before.map(|row| (row, false)).chain(requests.steps.iter().filter_map(begin_or_end)) {
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
    let mut ends: Vec<(u32, u64)> = lives.iter().map(|life| (life.end, life.bytes)).collect();
    ends.sort_unstable();
    let mut ends = ends.into_iter().peekable();
    let (mut live, mut peak) = (0u64, 0u64);
    for life in lives {
        while let Some((_, bytes)) = ends.next_if(|&(end, _)| end <= life.begin) {
            live -= bytes;
        }
        live += life.bytes;
        peak = peak.max(live);
    }
    peak
}

/// The best of a portfolio of packings. Ways that would take too long on these lives are left out.
#[must_use]
pub fn pack(lives: &[Life]) -> Packing {
    let found: Vec<Option<Packing>> = Method::ALL.par_iter().map(|method| method.pack(lives)).collect();
    let best = found.into_iter().flatten().min_by_key(|packing| packing.bytes);
    best.unwrap_or_default()
}

/// A way to place lives.
#[derive(Clone, Copy)]
enum Method {
    /// In time order, into the tightest hole.
    BestFit,
    /// In time order, into the lowest hole.
    FirstFit,
    /// The largest first, each as low as it can lie.
    LargestFirst,
    /// The longest-lived first.
    LongestFirst,
    /// By size times life.
    AreaFirst,
}

impl Method {
    const ALL: [Self; 5] =
        [Self::LargestFirst, Self::AreaFirst, Self::LongestFirst, Self::FirstFit, Self::BestFit];

    fn pack(self, lives: &[Life]) -> Option<Packing> {
        let length = |life: &Life| u64::from(life.end.min(lives.len() as u32) - life.begin);
        let (method, offsets) = match self {
            Self::BestFit => ("best fit in time order", online::place(lives, online::Choice::Tightest)?),
            Self::FirstFit => ("first fit in time order", online::place(lives, online::Choice::Lowest)?),
            Self::LargestFirst => {
                let key = |life: &Life| (u128::from(life.room()), length(life));
                ("largest first", offline::place(lives, key)?)
            }
            Self::LongestFirst => {
                let key = |life: &Life| (u128::from(length(life)), life.room());
                ("longest-lived first", offline::place(lives, key)?)
            }
            Self::AreaFirst => {
                let key = |life: &Life| (u128::from(length(life)) * u128::from(life.room()), life.room());
                ("size times life first", offline::place(lives, key)?)
            }
        };
        let ends = lives.iter().zip(&offsets).map(|(life, offset)| offset + life.room());
        Some(Packing { bytes: ends.max().unwrap_or(0), method, offsets })
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
        assert_eq!(Method::FirstFit.pack(&lives).unwrap().bytes, 6144);
    }

    #[test]
    fn nothing_needs_nothing() {
        assert_eq!(pack(&[]).bytes, 0);
        assert_eq!(live_peak(&[]), 0);
    }
}
