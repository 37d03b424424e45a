//! Where the driver would put segments.
//!
//! Addresses decide only between equally large free blocks, so a replay is as exact as its addresses are
//! plausible. While a replay obtains segments as the recording did, it gets the recorded addresses (the next
//! unused one of that size); beyond that, addresses as CUDA is seen to hand them out: regions of whole
//! 32 MiB from the top down, small segments in the tails that are left.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use crate::rebuild::SMALL_SEGMENT_BYTES;

const REGION_BYTES: u64 = 32 << 20;
/// Top of the invented addresses, above all that CUDA uses, so that nothing recorded is met.
const TOP: u64 = 1 << 60;
/// Bottom of invented reservations of expandable segments.
const RESERVATIONS: u64 = 1 << 61;

/// How segments are placed. Each is plausible; where they give different results, a figure hangs on ties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placing {
    /// The next unused recorded address of a segment of that size, else an invented one.
    #[default]
    BySize,
    /// In the order of the recorded addresses: the n-th segment lies where the n-th recorded one lay among
    /// the others.
    ByRank,
    /// As CUDA is seen to place segments in an empty address space.
    Invented,
}

/// Gives addresses and knows which are taken.
#[derive(Clone, Debug)]
pub(super) struct Addresses {
    /// Recorded addresses by size, newest last, to be used up from the end of the reversed list.
    recorded: HashMap<u64, Vec<u64>>,
    /// Recorded addresses, stretched, of large and of small segments; newest last in the reversed lists.
    ranked: [Vec<u64>; 2],
    /// Recorded starts of expandable ranges by group, in reverse order of appearance.
    recorded_ranges: HashMap<u32, Vec<u64>>,
    /// The same by address: (start, group).
    starts: BTreeSet<(u64, u32)>,
    /// Groups of the reservations at recorded addresses.
    bases: BTreeMap<u64, u32>,
    /// Taken ranges: start to length.
    held: BTreeMap<u64, u64>,
    /// Free tails of invented regions: (length, start).
    tails: BTreeSet<(u64, u64)>,
    next_top: u64,
    next_reservation: u64,
}

impl Default for Addresses {
    fn default() -> Self {
        Self {
            recorded: HashMap::new(),
            ranked: [Vec::new(), Vec::new()],
            recorded_ranges: HashMap::new(),
            starts: BTreeSet::new(),
            bases: BTreeMap::new(),
            held: BTreeMap::new(),
            tails: BTreeSet::new(),
            next_top: TOP,
            next_reservation: RESERVATIONS,
        }
    }
}

impl Addresses {
    /// Knows recorded segments as (bytes, address) and starts of mapped ranges as (group, address), each in
    /// order of appearance.
    pub(super) fn from_recording(segments: &[(u64, u64)], ranges: &[(u32, u64)], placing: Placing) -> Self {
        let mut addresses = Self::default();
        if placing == Placing::ByRank {
            addresses.next_top = segments.iter().map(|segment| segment.1).min().map_or(TOP, stretched);
        }
        for &(bytes, address) in segments.iter().rev() {
            match placing {
                Placing::BySize => addresses.recorded.entry(bytes).or_default().push(address),
                Placing::ByRank => addresses.ranked[usize::from(is_small(bytes))].push(stretched(address)),
                Placing::Invented => {}
            }
        }
        for &(group, address) in ranges.iter().rev() {
            addresses.recorded_ranges.entry(group).or_default().push(address);
            addresses.starts.insert((address, group));
        }
        addresses
    }

    /// Marks a range as taken.
    pub(super) fn hold(&mut self, address: u64, bytes: u64) {
        self.held.insert(address, bytes);
    }

    /// A place for a segment of `bytes`, marked as taken.
    pub(super) fn segment(&mut self, bytes: u64) -> u64 {
        let recorded = self.recorded.get_mut(&bytes).and_then(Vec::pop);
        let recorded = recorded.or_else(|| self.ranked[usize::from(is_small(bytes))].pop());
        let address = recorded.filter(|&at| self.is_free(at, bytes)).unwrap_or_else(|| self.invent(bytes));
        self.hold(address, bytes);
        address
    }

    /// A place for a reservation of about `wanted` bytes of address space for `group`, at least `needed`,
    /// marked as taken: its address and length.
    pub(super) fn reservation(&mut self, group: u32, wanted: u64, needed: u64) -> (u64, u64) {
        while let Some(address) = self.recorded_ranges.get_mut(&group).and_then(Vec::pop) {
            if !self.is_free(address, 1) {
                continue; // A later piece of a reservation that is there already.
            }
            let bytes = wanted.min(self.room_behind(group, address));
            if bytes >= needed {
                self.hold(address, bytes);
                self.bases.insert(address, group);
                return (address, bytes);
            }
        }
        let address = self.next_reservation;
        self.next_reservation =
            address.saturating_add(wanted.div_ceil(REGION_BYTES).saturating_mul(REGION_BYTES));
        self.hold(address, wanted);
        (address, wanted)
    }

    /// Address space from `address` up to what is taken, or to where the recording has another group.
    fn room_behind(&self, group: u32, address: u64) -> u64 {
        let taken = self.held.range(address..).next().map(|(&next, _)| next);
        let other =
            self.starts.range((address, u32::MAX)..).find(|&&(_, of)| of != group).map(|&(next, _)| next);
        taken.into_iter().chain(other).min().map_or(u64::MAX - address, |next| next - address)
    }

    /// Gives a segment or reservation back.
    pub(super) fn release(&mut self, address: u64) {
        let Some(bytes) = self.held.remove(&address) else { return };
        // The driver gives the same address space again.
        if let Some(group) = self.bases.remove(&address) {
            self.recorded_ranges.entry(group).or_default().push(address);
        }
        if (TOP >> 1..TOP).contains(&address) {
            self.tails.insert((bytes, address));
        }
    }

    fn is_free(&self, address: u64, bytes: u64) -> bool {
        let end = address.saturating_add(bytes);
        self.held
            .range(..end)
            .next_back()
            .is_none_or(|(&start, &length)| start.saturating_add(length) <= address)
    }

    fn invent(&mut self, bytes: u64) -> u64 {
        if let Some(&(length, start)) = self.tails.range((bytes, 0)..).next() {
            self.tails.remove(&(length, start));
            if length > bytes {
                self.tails.insert((length - bytes, start.saturating_add(bytes)));
            }
            return start;
        }
        let region = bytes.div_ceil(REGION_BYTES).saturating_mul(REGION_BYTES);
        // A hostile size may not fit: it then gets the bottom, and no limit lets it through in practice.
        self.next_top = self.next_top.saturating_sub(region);
        if region > bytes {
            self.tails.insert((region - bytes, self.next_top.saturating_add(bytes)));
        }
        self.next_top
    }
}

/// An address with so much room behind it that segments of other sizes keep their order.
fn stretched(address: u64) -> u64 {
    address.saturating_mul(16).min(TOP >> 1)
}

fn is_small(bytes: u64) -> bool {
    bytes <= SMALL_SEGMENT_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn recorded_addresses_come_first_in_their_order() {
        let mut addresses = Addresses::from_recording(
            &[(2 * MIB, 0x1000_0000), (2 * MIB, 0x3000_0000)],
            &[],
            Placing::BySize,
        );
        assert_eq!(addresses.segment(2 * MIB), 0x1000_0000);
        assert!(addresses.segment(20 * MIB) >= TOP >> 1);
        assert_eq!(addresses.segment(2 * MIB), 0x3000_0000);
    }

    #[test]
    fn a_recorded_address_that_is_taken_is_passed_over() {
        let mut addresses = Addresses::from_recording(
            &[(4 * MIB, 0x1000_0000), (2 * MIB, 0x1010_0000)],
            &[],
            Placing::BySize,
        );
        assert_eq!(addresses.segment(4 * MIB), 0x1000_0000);
        assert_ne!(addresses.segment(2 * MIB), 0x1010_0000);
    }

    #[test]
    fn ranked_segments_keep_the_recorded_order_whatever_their_size() {
        let recorded = [(20 * MIB, 0x3000_0000), (20 * MIB, 0x1000_0000), (2 * MIB, 0x2000_0000)];
        let mut addresses = Addresses::from_recording(&recorded, &[], Placing::ByRank);
        let (high, low, small) =
            (addresses.segment(64 * MIB), addresses.segment(96 * MIB), addresses.segment(2 * MIB));
        assert!(low < small && small < high);
        assert!(addresses.segment(20 * MIB) < low, "further ones follow downwards");
    }

    #[test]
    fn invented_segments_go_down_and_fill_tails() {
        let mut addresses = Addresses::default();
        let first = addresses.segment(20 * MIB);
        let second = addresses.segment(20 * MIB);
        assert_eq!(first - second, 32 * MIB);
        assert_eq!(addresses.segment(2 * MIB), second + 20 * MIB);
        addresses.release(first);
        assert_eq!(addresses.segment(16 * MIB), first);
    }
}
