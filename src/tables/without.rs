//! What the peak would have been without some allocations.
//!
//! Owns one recount: the curve of allocated bytes less what chosen sets of allocations hold. It says what a
//! line is worth, not what another program would do: the other allocations stay as they are.

use crate::rebuild::{History, Moment, Peak};

use super::walk::{Tally, Totals, Walk};

/// How many sets one pass can leave out.
pub const MOST_SETS: usize = 8;

/// The peak of allocated bytes, each of `sets` sets left out in turn. `members[row]` has bit `s` set when
/// allocation `row` belongs to set `s`; an allocation may belong to several. One pass over the events.
#[must_use]
pub fn peaks_without(history: &History, members: &[u8], sets: usize) -> Vec<Peak> {
    let sets = sets.min(MOST_SETS);
    let mut recount =
        Recount { history, members, totals: Totals::new(history), held: vec![0; sets], peaks: Vec::new() };
    Walk::new(history).run(&mut recount);
    recount.peaks.resize(sets, Peak::default());
    recount.peaks
}

struct Recount<'a> {
    history: &'a History,
    members: &'a [u8],
    totals: Totals<'a>,
    held: Vec<u64>,
    peaks: Vec<Peak>,
}

impl Recount<'_> {
    fn change(&mut self, row: usize, by: impl Fn(u64, u64) -> u64) {
        let sets = self.members.get(row).copied().unwrap_or(0);
        if sets == 0 {
            return;
        }
        let bytes = self.history.allocations.block_bytes[row];
        for (set, held) in self.held.iter_mut().enumerate().filter(|(set, _)| sets >> set & 1 == 1) {
            debug_assert!(set < MOST_SETS, "a bit for every set");
            *held = by(*held, bytes);
        }
    }
}

impl<'a> Tally<'a> for Recount<'a> {
    #[inline]
    fn totals(&mut self) -> Option<&mut Totals<'a>> {
        Some(&mut self.totals)
    }

    fn alloc(&mut self, row: usize) {
        self.totals.alloc(row);
        self.change(row, u64::saturating_add);
    }

    fn free(&mut self, row: usize) {
        self.totals.free(row);
        self.change(row, u64::saturating_sub);
    }

    fn arrive(&mut self, moment: Moment) {
        let bytes = self.totals.usage.allocated_bytes;
        let rest = self.held.iter().map(|&held| bytes.saturating_sub(held));
        if self.peaks.is_empty() {
            self.peaks = rest.map(|bytes| Peak { bytes, moment }).collect();
            return;
        }
        for (peak, bytes) in self.peaks.iter_mut().zip(rest) {
            peak.raise(bytes, moment);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;
    use crate::rebuild::rebuild;

    const A: u64 = 0x7000_0000_0000;

    #[test]
    fn a_set_left_out_lowers_the_peak_by_what_it_holds_there_or_moves_it() {
        let trace = TraceBuilder::new()
            .segment_alloc(A, 20 << 20)
            .alloc(A, 4 << 20)
            .alloc(A + (4 << 20), 8 << 20)
            .free(A + (4 << 20), 8 << 20)
            .alloc(A + (4 << 20), 6 << 20)
            .build();
        let history = rebuild(&trace, &trace.devices[0]);
        let peaks = peaks_without(&history, &[0b001, 0b010, 0b110], 3);
        let bytes: Vec<u64> = peaks.iter().map(|peak| peak.bytes >> 20).collect();
        assert_eq!(bytes, [8, 4, 12]);
        assert_eq!((peaks[1].moment, peaks[2].moment), (Moment(2), Moment(3)));
    }

    #[test]
    fn no_set_is_no_peak() {
        assert!(peaks_without(&History::default(), &[], 0).is_empty());
    }
}
