//! Allocator settings as the snapshot states them, and what follows from the configuration text.
//!
//! Sources: `../docs/memory-model.md`; keys of `allocator_settings` since PyTorch 2.3. Some settings are in
//! no key and are read from the text of `PYTORCH_CUDA_ALLOC_CONF`.

use std::collections::BTreeMap;

/// A value of `allocator_settings`.
#[derive(Clone, Debug, PartialEq)]
pub enum SettingValue {
    /// True or false.
    Bool(bool),
    /// An integer; -1 stands for unlimited.
    Int(i128),
    /// A number.
    Float(f64),
    /// A text.
    Text(String),
    /// A table such as `roundup_power2_divisions`.
    Map(BTreeMap<String, i128>),
}

/// `allocator_settings`, key by key as recorded; nothing when the snapshot has none (before 2.3).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Every recorded key.
    pub values: BTreeMap<String, SettingValue>,
}

impl Settings {
    /// The configuration text, empty when unset or unknown.
    #[must_use]
    pub fn conf(&self) -> &str {
        for key in ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "last_allocator_settings"] {
            if let Some(SettingValue::Text(text)) = self.values.get(key) {
                return text;
            }
        }
        ""
    }

    /// A key of the configuration text, for example `large_segment_size_mb`.
    #[must_use]
    pub fn conf_value(&self, key: &str) -> Option<&str> {
        self.conf().split(',').find_map(|part| {
            let (name, value) = part.split_once(':')?;
            (name.trim() == key).then(|| value.trim())
        })
    }

    fn conf_mib(&self, key: &str) -> Option<u64> {
        self.conf_value(key)?.parse::<u64>().ok()?.checked_mul(1 << 20)
    }

    fn int(&self, key: &str) -> Option<i128> {
        match self.values.get(key) {
            Some(SettingValue::Int(value)) => Some(*value),
            _ => None,
        }
    }

    /// `max_split_size` in bytes; `None` when unlimited.
    #[must_use]
    pub fn max_split_bytes(&self) -> Option<u64> {
        match self.int("max_split_size") {
            Some(value) => u64::try_from(value).ok().filter(|&value| value < u64::MAX),
            None => self.conf_mib("max_split_size_mb"),
        }
    }

    /// Size of segments for requests of 1 to 10 MiB, in bytes (20 MiB unless configured, 2.11 and later).
    #[must_use]
    pub fn large_segment_bytes(&self) -> u64 {
        self.conf_mib("large_segment_size_mb").unwrap_or(20 << 20)
    }

    /// `expandable_segments:True`.
    #[must_use]
    pub fn expandable_segments(&self) -> bool {
        match self.values.get("expandable_segments") {
            Some(SettingValue::Bool(value)) => *value,
            _ => self.conf_value("expandable_segments") == Some("True"),
        }
    }

    /// `garbage_collection_threshold`, 0 when off.
    #[must_use]
    pub fn garbage_collection_threshold(&self) -> f64 {
        match self.values.get("garbage_collection_threshold") {
            Some(SettingValue::Float(value)) => *value,
            Some(SettingValue::Int(value)) => *value as f64,
            _ => self
                .conf_value("garbage_collection_threshold")
                .and_then(|text| text.parse().ok())
                .unwrap_or(0.0),
        }
    }

    /// The memory fraction from the configuration text (2.10 and later), if it is there. One set by a call
    /// leaves no mark in a snapshot.
    #[must_use]
    pub fn memory_fraction(&self) -> Option<f64> {
        self.conf_value("per_process_memory_fraction")?.parse().ok()
    }

    /// `roundup_power2_divisions`: 16 slots for sizes from 1 MiB, 2 MiB, ... 32 GiB; 0 is off.
    #[must_use]
    pub fn roundup_power2_divisions(&self) -> [u64; 16] {
        let mut slots = [0; 16];
        if let Some(SettingValue::Map(map)) = self.values.get("roundup_power2_divisions") {
            for (slot, value) in slots.iter_mut().enumerate() {
                let key = (1u64 << slot).to_string();
                *value = map.get(&key).and_then(|&v| u64::try_from(v).ok()).unwrap_or(0);
            }
        } else if let Some(value) = self.conf_value("roundup_power2_divisions")
            && let Ok(value) = value.parse::<u64>()
        {
            slots = [value; 16];
        }
        slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, SettingValue)]) -> Settings {
        Settings { values: pairs.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect() }
    }

    #[test]
    fn minus_one_means_no_limit() {
        let none = settings(&[("max_split_size", SettingValue::Int(-1))]);
        assert_eq!(none.max_split_bytes(), None);
        let some = settings(&[("max_split_size", SettingValue::Int(67_108_864))]);
        assert_eq!(some.max_split_bytes(), Some(67_108_864));
    }

    #[test]
    fn what_no_key_states_is_read_from_the_text() {
        let conf = "large_segment_size_mb:40, per_process_memory_fraction:0.5,expandable_segments:True";
        let read = settings(&[("PYTORCH_CUDA_ALLOC_CONF", SettingValue::Text(conf.to_owned()))]);
        assert_eq!(read.large_segment_bytes(), 40 << 20);
        assert_eq!(read.memory_fraction(), Some(0.5));
        assert!(read.expandable_segments());
        assert_eq!(Settings::default().large_segment_bytes(), 20 << 20);
    }

    #[test]
    fn divisions_are_read_from_their_table() {
        let map = [("1".to_owned(), 8), ("32768".to_owned(), 4)].into_iter().collect();
        let read = settings(&[("roundup_power2_divisions", SettingValue::Map(map))]);
        let slots = read.roundup_power2_divisions();
        assert_eq!((slots[0], slots[1], slots[15]), (8, 0, 4));
    }
}
