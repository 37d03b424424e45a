//! Settings of a replay: the text of `PYTORCH_CUDA_ALLOC_CONF`, read as a release of PyTorch reads it.
//!
//! Owns parsing and the figures that the allocator model needs. What the keys mean is in
//! `docs/memory-model.md`; keys that do not change where memory goes (locks, pinned host memory) are
//! accepted and ignored.

use std::collections::BTreeMap;

use crate::model::{SettingValue, Settings};
use crate::rebuild::Rules;

const MIB: u64 = 1 << 20;
const LARGE_SEGMENT_BYTES: u64 = 20 * MIB;
/// Slots of `roundup_power2_divisions`: sizes from 1 MiB, 2 MiB, ... 32 GiB.
const SLOTS: usize = 16;
/// Keys without any influence on addresses and sizes on the device.
const WITHOUT_EFFECT: [&str; 11] = [
    "release_lock_on_cudamalloc",
    "graph_capture_record_stream_reuse",
    "throw_on_cudamalloc_oom",
    "expandable_segments_reserve",
    "pinned_use_cuda_host_register",
    "pinned_num_register_threads",
    "pinned_use_background_threads",
    "pinned_reserve_segment_size_mb",
    "pinned_free_catch_all",
    "pinned_max_round_threshold_mb",
    "pinned_max_cached_size_mb",
];

/// Release of PyTorch whose rules a replay follows, as far as releases differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// 2.6 to 2.8: a list's `>` overwrites the last slot named; no `large_segment_size_mb`; the memory
    /// fraction cannot be set in the text.
    V2_6,
    /// 2.11 to 2.14.
    #[default]
    V2_11,
    /// 2.15.
    V2_15,
}

impl Release {
    /// The release called `text`: `2.6`, `2.11` or `2.15`.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        match text {
            "2.6" => Some(Self::V2_6),
            "2.11" => Some(Self::V2_11),
            "2.15" => Some(Self::V2_15),
            _ => None,
        }
    }
}

/// Why a text is no configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfError(String);

fn refused<T>(what: String) -> Result<T, ConfError> {
    Err(ConfError(what))
}

/// Settings of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Conf {
    text: String,
    rules: Rules,
    /// `max_split_size` in bytes; `u64::MAX` when unlimited.
    pub(super) max_split_bytes: u64,
    /// `max_non_split_rounding` in bytes.
    pub(super) max_non_split_rounding_bytes: u64,
    /// Size of segments for requests of 1 to 10 MiB, and granule of expandable segments of the large pool.
    pub(super) large_segment_bytes: u64,
    /// `garbage_collection_threshold`; 0 when off.
    pub(super) collection_threshold: f64,
    /// `expandable_segments:True`.
    pub(super) expandable: bool,
    /// `per_process_memory_fraction` of the text.
    pub(super) memory_fraction: Option<f64>,
    /// `backend:cudaMallocAsync`: the driver's own pool, of which there is no model.
    asynchronous: bool,
}

impl Default for Conf {
    fn default() -> Self {
        Draft::default().finish(String::new())
    }
}

impl Conf {
    /// Reads a configuration text.
    ///
    /// # Errors
    /// When `release` would refuse the text, or does not know a key.
    pub fn parse(text: &str, release: Release) -> Result<Self, ConfError> {
        let mut draft = Draft::default();
        for entry in entries(text) {
            let Some((key, value)) = entry.split_once(':') else {
                return refused(format!("`{entry}` is no `key:value`"));
            };
            draft.set(key.trim(), value.trim(), release)?;
        }
        Ok(draft.finish(text.trim().to_owned()))
    }

    /// The settings that a recording states. What it does not state is at its default.
    #[must_use]
    pub fn recorded(settings: &Settings) -> Self {
        let rounding = settings.conf_value("max_non_split_rounding_mb").and_then(|text| text.parse().ok());
        let draft = Draft {
            max_split_bytes: settings.max_split_bytes(),
            max_non_split_rounding_bytes: rounding
                .map_or(LARGE_SEGMENT_BYTES, |mib: u64| mib.saturating_mul(MIB)),
            large_segment_bytes: settings.large_segment_bytes().max(1),
            collection_threshold: settings.garbage_collection_threshold(),
            expandable: settings.expandable_segments(),
            memory_fraction: settings.memory_fraction(),
            asynchronous: false,
            divisions: settings.roundup_power2_divisions(),
        };
        draft.finish(settings.conf().to_owned())
    }

    /// The text as given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether this is `backend:cudaMallocAsync`, which a replay can only bound.
    #[must_use]
    pub fn is_asynchronous(&self) -> bool {
        self.asynchronous
    }

    /// Whether segments are expandable.
    #[must_use]
    pub fn is_expandable(&self) -> bool {
        self.expandable
    }

    /// The share of the device's memory that the text allows, if it says so.
    #[must_use]
    pub fn memory_fraction(&self) -> Option<f64> {
        self.memory_fraction
    }

    /// Whether garbage collection is asked for.
    #[must_use]
    pub fn collects(&self) -> bool {
        self.collection_threshold > 0.0
    }

    /// Size that a request is rounded to.
    #[inline]
    pub(super) fn round(&self, bytes: u64) -> u64 {
        self.rules.round(bytes)
    }

    /// Bytes that `rounded` takes of a free block of `found` bytes.
    #[inline]
    pub(super) fn taken(&self, found: u64, rounded: u64, small: bool) -> u64 {
        self.rules.taken(found, rounded, small, false)
    }

    /// Size of the segment that a rounded request obtains.
    #[must_use]
    pub fn segment_bytes(&self, rounded: u64) -> u64 {
        const MIN_LARGE: u64 = 10 * MIB;
        match rounded {
            0..=MIB => 2 * MIB,
            _ if rounded < MIN_LARGE => self.large_segment_bytes,
            _ => rounded.div_ceil(2 * MIB).saturating_mul(2 * MIB),
        }
    }

    /// Granule of expandable segments.
    #[must_use]
    pub fn granule_bytes(&self, small: bool) -> u64 {
        if small { 2 * MIB } else { self.large_segment_bytes }
    }

    /// Whether a free block of `found` bytes may serve a request of `rounded` bytes: `max_split_size` keeps
    /// oversize blocks for oversize requests of about their size.
    #[must_use]
    pub fn may_serve(&self, rounded: u64, found: u64) -> bool {
        if rounded < self.max_split_bytes {
            rounded <= found && found < self.max_split_bytes
        } else {
            rounded <= found && found < rounded.saturating_add(self.max_non_split_rounding_bytes)
        }
    }
}

/// Values while a text is read.
struct Draft {
    max_split_bytes: Option<u64>,
    max_non_split_rounding_bytes: u64,
    large_segment_bytes: u64,
    collection_threshold: f64,
    expandable: bool,
    memory_fraction: Option<f64>,
    asynchronous: bool,
    divisions: [u64; SLOTS],
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            max_split_bytes: None,
            max_non_split_rounding_bytes: LARGE_SEGMENT_BYTES,
            large_segment_bytes: LARGE_SEGMENT_BYTES,
            collection_threshold: 0.0,
            expandable: false,
            memory_fraction: None,
            asynchronous: false,
            divisions: [0; SLOTS],
        }
    }
}

impl Draft {
    fn set(&mut self, key: &str, value: &str, release: Release) -> Result<(), ConfError> {
        match key {
            "max_split_size_mb" => self.max_split_bytes = Some(mebibytes(key, value, 20)?),
            "max_non_split_rounding_mb" => self.max_non_split_rounding_bytes = mebibytes(key, value, 20)?,
            "large_segment_size_mb" if release >= Release::V2_11 => {
                self.large_segment_bytes = mebibytes(key, value, 10)?;
            }
            "garbage_collection_threshold" => self.collection_threshold = share(key, value)?,
            "per_process_memory_fraction" if release >= Release::V2_11 => {
                self.memory_fraction =
                    Some(if value == "1.0" || value == "1" { 1.0 } else { share(key, value)? });
            }
            "roundup_power2_divisions" => self.divisions = divisions(value, release)?,
            "expandable_segments" => {
                self.expandable = match value {
                    "True" => true,
                    "False" => false,
                    _ => return refused(format!("{key} is `True` or `False`, not `{value}`")),
                };
            }
            "backend" => {
                self.asynchronous = match value {
                    "native" => false,
                    "cudaMallocAsync" => true,
                    _ => return refused(format!("there is no backend `{value}`")),
                };
            }
            _ if WITHOUT_EFFECT.contains(&key) => {}
            _ => return refused(format!("`{key}` is no setting of this release")),
        }
        Ok(())
    }

    fn finish(self, text: String) -> Conf {
        let map: BTreeMap<String, i128> =
            (0..SLOTS).map(|slot| ((1u64 << slot).to_string(), i128::from(self.divisions[slot]))).collect();
        let mut settings = Settings::default();
        let mut state = |key: &str, value| settings.values.insert(key.to_owned(), value);
        state("max_split_size", SettingValue::Int(self.max_split_bytes.map_or(-1, i128::from)));
        state("expandable_segments", SettingValue::Bool(self.expandable));
        state("roundup_power2_divisions", SettingValue::Map(map));
        Conf {
            text,
            rules: Rules::new(&settings),
            max_split_bytes: self.max_split_bytes.unwrap_or(u64::MAX),
            max_non_split_rounding_bytes: self.max_non_split_rounding_bytes,
            large_segment_bytes: self.large_segment_bytes,
            collection_threshold: self.collection_threshold,
            expandable: self.expandable,
            memory_fraction: self.memory_fraction,
            asynchronous: self.asynchronous,
        }
    }
}

/// Comma-separated entries; commas inside `[...]` separate nothing.
fn entries(text: &str) -> Vec<&str> {
    let mut depth = 0i32;
    text.split(|c: char| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|entry| !entry.is_empty())
    .collect()
}

fn mebibytes(key: &str, value: &str, above: u64) -> Result<u64, ConfError> {
    match value.parse::<u64>() {
        // From 2.9 on the bound itself is allowed; a refusal there would help nobody.
        Ok(mib) if mib >= above && mib <= u64::MAX / MIB => Ok(mib * MIB),
        Ok(mib) => refused(format!("{key}:{mib} is out of range: PyTorch wants at least {above}")),
        Err(_) => refused(format!("{key} is a number of MiB, not `{value}`")),
    }
}

fn share(key: &str, value: &str) -> Result<f64, ConfError> {
    match value.parse::<f64>() {
        Ok(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => refused(format!("{key} lies between 0 and 1, `{value}` does not")),
    }
}

fn divisions(value: &str, release: Release) -> Result<[u64; SLOTS], ConfError> {
    let Some(list) = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
        return Ok([power_of_two(value)?; SLOTS]);
    };
    let mut slots = [0; SLOTS];
    let mut last: Option<usize> = None;
    for pair in list.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let Some((from, count)) = pair.split_once(':') else {
            return refused(format!("`{pair}` is no `size:divisions`"));
        };
        let count = power_of_two(count.trim())?;
        if from.trim() == ">" {
            let Some(last) = last else { return refused("`>` needs a size before it".to_owned()) };
            slots[if release < Release::V2_11 { last } else { last + 1 }.min(SLOTS)..].fill(count);
            continue;
        }
        let slot = match from.trim().parse::<u64>() {
            Ok(mib) if mib.is_power_of_two() => (mib.ilog2() as usize).min(SLOTS - 1),
            _ => return refused(format!("`{from}` is no power of two, in MiB")),
        };
        // The first key's value also holds for everything below it.
        let begin = if last.is_none() { 0 } else { slot };
        slots[begin..=slot].fill(count);
        last = Some(slot);
    }
    Ok(slots)
}

fn power_of_two(text: &str) -> Result<u64, ConfError> {
    match text.parse::<u64>() {
        Ok(count) if count == 0 || count.is_power_of_two() => Ok(count),
        _ => refused(format!("divisions are a power of two, `{text}` is none")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn conf(text: &str) -> Conf {
        Conf::parse(text, Release::default()).unwrap()
    }

    #[test]
    fn keys_are_read_together() {
        let read = conf("expandable_segments:True, max_split_size_mb:64,garbage_collection_threshold:0.6");
        assert_eq!((read.expandable, read.max_split_bytes, read.collection_threshold), (true, 64 * MIB, 0.6));
        assert_eq!(conf(""), Conf::default());
        assert!(conf("backend:cudaMallocAsync").is_asynchronous());
        assert_eq!(conf("pinned_num_register_threads:8").max_split_bytes, u64::MAX);
    }

    #[test]
    fn what_pytorch_refuses_is_refused() {
        for text in [
            "max_split_size_mb:10",
            "max_split_size_mb:many",
            "garbage_collection_threshold:1.5",
            "expandable_segments:true",
            "roundup_power2_divisions:3",
            "max_split:64",
            "expandable_segments",
            "roundup_power2_divisions:[>:4]",
        ] {
            assert!(Conf::parse(text, Release::default()).is_err(), "{text}");
        }
        assert!(Conf::parse("large_segment_size_mb:40", Release::V2_6).is_err());
    }

    #[test]
    fn a_list_of_divisions_fills_downwards_and_upwards() {
        let text = "[256:1,512:2,1024:4,>:8]";
        let new = divisions(text, Release::V2_11).unwrap();
        assert_eq!((new[0], new[8], new[9], new[10], new[11], new[15]), (1, 1, 2, 4, 8, 8));
        let old = divisions(text, Release::V2_6).unwrap();
        assert_eq!((old[9], old[10], old[11]), (2, 8, 8), "2.6 overwrites the last slot named");
        assert_eq!(divisions("8", Release::V2_11).unwrap(), [8; SLOTS]);
    }

    #[test]
    fn segments_follow_the_request() {
        let plain = Conf::default();
        assert_eq!(plain.segment_bytes(MIB), 2 * MIB);
        assert_eq!(plain.segment_bytes(MIB + 512), 20 * MIB);
        assert_eq!(plain.segment_bytes(10 * MIB), 10 * MIB);
        assert_eq!(plain.segment_bytes(10 * MIB + 512), 12 * MIB);
        assert_eq!(conf("large_segment_size_mb:40").segment_bytes(2 * MIB), 40 * MIB);
    }
}
