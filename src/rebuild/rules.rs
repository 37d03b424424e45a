//! The allocator's arithmetic: how a request is rounded and when a free block is split.
//!
//! Facts about PyTorch's `CUDACachingAllocator` (2.0 to 2.15), explained in `docs/memory-model.md`. Owns no
//! state; `blocks` applies it.

use crate::model::Settings;

/// Smallest block, and the unit of rounding.
pub const MIN_BLOCK_BYTES: u64 = 512;
/// Requests of at most this size (rounded) live in the small pool; also the largest remainder that is *not*
/// split off in the large pool.
pub const SMALL_BYTES: u64 = 1 << 20;
/// Size of a small pool's segment.
pub const SMALL_SEGMENT_BYTES: u64 = 2 << 20;
/// Settings that decide the size of blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    max_split_bytes: Option<u64>,
    divisions: [u64; 16],
    expandable: bool,
}

impl Rules {
    /// The rules in force under `settings`.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self {
            max_split_bytes: settings.max_split_bytes(),
            divisions: settings.roundup_power2_divisions(),
            expandable: settings.expandable_segments(),
        }
    }

    /// Size that a request of `bytes` is rounded to: a multiple of 512, or a step of a power of two where
    /// `roundup_power2_divisions` asks for it.
    #[must_use]
    pub fn round(&self, bytes: u64) -> u64 {
        if bytes < MIN_BLOCK_BYTES {
            return MIN_BLOCK_BYTES;
        }
        let slot = u64::from(bytes.ilog2()).saturating_sub(20).min(15) as usize;
        let divisions = self.divisions[slot];
        if divisions > 1 && bytes > MIN_BLOCK_BYTES.saturating_mul(divisions) {
            return round_to_division(bytes, divisions);
        }
        round_up(bytes, MIN_BLOCK_BYTES)
    }

    /// Size of the block that serves `rounded` bytes out of a free block of `found` bytes: `rounded` where
    /// the remainder is split off, all of `found` where it stays with the block.
    #[must_use]
    pub fn taken(&self, found: u64, rounded: u64, small: bool, expandable: bool) -> u64 {
        let remainder = found.saturating_sub(rounded);
        let split = if small || expandable || self.expandable {
            remainder >= MIN_BLOCK_BYTES
        } else {
            self.max_split_bytes.is_none_or(|limit| rounded < limit) && remainder > SMALL_BYTES
        };
        if split { rounded } else { found }
    }

    /// Whether a block's size follows from its request alone in this kind of segment (the rest is always
    /// split off), so that it is certain even for an allocation that was never seen to begin.
    #[must_use]
    pub fn always_splits(&self, small: bool, expandable: bool) -> bool {
        small || expandable || self.expandable
    }

    /// Whether the free blocks of the large pool are all larger than [`SMALL_BYTES`], so that a smaller gap
    /// behind a block must belong to the block.
    #[must_use]
    pub fn small_gaps_belong_to_blocks(&self) -> bool {
        self.max_split_bytes.is_none() && !self.expandable
    }

    /// `max_split_size`, `None` when unlimited.
    #[must_use]
    pub fn max_split_bytes(&self) -> Option<u64> {
        self.max_split_bytes
    }
}

fn round_to_division(bytes: u64, divisions: u64) -> u64 {
    if bytes.is_power_of_two() {
        return bytes;
    }
    let floor = 1u64 << bytes.ilog2();
    match floor >> divisions.ilog2() {
        0 => floor.saturating_mul(2),
        step => round_up(bytes, step),
    }
}

fn round_up(bytes: u64, step: u64) -> u64 {
    bytes.div_ceil(step).saturating_mul(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SettingValue;

    fn with_divisions(divisions: i128) -> Rules {
        let map = (0..16).map(|slot| ((1u64 << slot).to_string(), divisions)).collect();
        let mut settings = Settings::default();
        settings.values.insert("roundup_power2_divisions".to_owned(), SettingValue::Map(map));
        Rules::new(&settings)
    }

    #[test]
    fn requests_round_up_to_512() {
        let rules = Rules::default();
        assert_eq!(rules.round(1), 512);
        assert_eq!(rules.round(512), 512);
        assert_eq!(rules.round(513), 1024);
        assert_eq!(rules.round(u64::MAX), u64::MAX / 512 * 512 + 511);
    }

    #[test]
    fn divisions_round_to_steps_of_the_power_of_two_below() {
        let rules = with_divisions(4);
        assert_eq!(rules.round(1200), 1536, "below 512 * divisions the plain rule holds");
        assert_eq!(rules.round((1 << 20) + 1), (1 << 20) + (1 << 18));
        assert_eq!(rules.round(4 << 20), 4 << 20);
        assert_eq!(with_divisions(1).round((1 << 20) + 1), (1 << 20) + 512);
    }

    #[test]
    fn the_large_pool_keeps_remainders_of_up_to_one_mebibyte() {
        let rules = Rules::default();
        let mib = 1 << 20;
        assert_eq!(rules.taken(4 * mib, 3 * mib, false, false), 4 * mib);
        assert_eq!(rules.taken(4 * mib + 512, 3 * mib, false, false), 3 * mib);
        assert_eq!(rules.taken(4 * mib, 3 * mib, false, true), 3 * mib);
        assert_eq!(rules.taken(2048, 1536, true, false), 1536);
        assert_eq!(rules.taken(2000, 1536, true, false), 2000);
    }

    #[test]
    fn oversize_blocks_are_not_split() {
        let mut settings = Settings::default();
        settings.values.insert("max_split_size".to_owned(), SettingValue::Int(64 << 20));
        let rules = Rules::new(&settings);
        assert_eq!(rules.taken(80 << 20, 64 << 20, false, false), 80 << 20);
        assert_eq!(rules.taken(80 << 20, 63 << 20, false, false), 63 << 20);
    }
}
