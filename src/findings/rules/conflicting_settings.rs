//! `conflicting-settings`: allocator settings that contradict one another, or do nothing.

use crate::findings::oom::torch_version;
use crate::findings::{Check, DeviceFacts, Finding, Guide, Rule, Severity};
use crate::model::{Action, DeviceId, PoolId, Settings, Trace};
use crate::tables::is_collecting;
use crate::units::{Bytes, Count};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "conflicting-settings",
    heading: "Allocator settings that contradict one another, or do nothing",
    guide: Guide {
        says: "`PYTORCH_CUDA_ALLOC_CONF` (or the settings that PyTorch recorded) contains things that work against \
               one another, that have no effect, or that PyTorch refuses.",
        fires: "Any of: `expandable_segments` together with `max_split_size_mb`; together with \
                `garbage_collection_threshold`; `expandable_segments:True` while no segment of the default pool is \
                expandable; `garbage_collection_threshold` without a memory limit (information where a limit may have \
                been set by a call, and nothing where the allocator can be seen to collect); \
                `backend:cudaMallocAsync` with options that only the native allocator has; a value that PyTorch \
                refuses (`max_split_size_mb` below 20, a threshold outside 0 to 1, a switch other than `True` or \
                `False`); a key that no known release has, or that is newer than the PyTorch that was recorded.",
        why: "Each is a fact of PyTorch's source, so there is no threshold. Blocks of expandable segments are split \
              whatever `max_split_size_mb` says and are never collected; some releases ended in an internal assertion \
              after an OOM with these pairs. The collector runs only where the memory fraction is limited.",
        needs: "`allocator_settings` (PyTorch 2.3 and later) or a trace of memlab's recorder.",
        is_not: "No reason for an OOM by itself. The rule says nothing about whether a setting is well chosen: \
                 `memlab whatif` replays others.",
        remedy: "Take out what has no effect. Of two that conflict keep `expandable_segments:True`; it does what the \
                 other was for.",
    },
    check: Check::Trace(find),
};

/// A conflict: its stable name, what is the matter, what to do.
struct Conflict {
    kind: &'static str,
    severity: Severity,
    title: String,
    remedy: &'static str,
}

impl Conflict {
    fn warning(kind: &'static str, title: impl Into<String>, remedy: &'static str) -> Self {
        Self { kind, severity: Severity::Warning, title: title.into(), remedy }
    }
}

fn find(trace: &Trace, devices: &[DeviceFacts]) -> Vec<Finding> {
    if trace.settings.values.is_empty() {
        return Vec::new();
    }
    let device = devices.first().map_or(DeviceId(0), |facts| facts.device);
    let mut conflicts = Vec::new();
    pairs(&trace.settings, &mut conflicts);
    conflicts.extend(without_effect(trace));
    conflicts.extend(without_limit(trace, device));
    conflicts.extend(other_backend(&trace.settings));
    let keys = conf_keys(&trace.settings);
    conflicts.extend(keys.iter().filter_map(|&(key, value)| refused(key, value)));
    let torch = torch_version(trace);
    conflicts.extend(keys.iter().filter_map(|&(key, _)| unknown(key, torch)));
    conflicts.into_iter().map(|conflict| told(trace, device, conflict)).collect()
}

fn told(trace: &Trace, device: DeviceId, conflict: Conflict) -> Finding {
    let settings = &trace.settings;
    let finding = Finding::new(&RULE, conflict.severity, device, 0, conflict.title)
        .evidence("kind", conflict.kind)
        .evidence("conf", settings.conf())
        .evidence("expandable_segments", settings.expandable_segments())
        .evidence("max_split_size_bytes", settings.max_split_bytes())
        .evidence("garbage_collection_threshold", settings.garbage_collection_threshold());
    finding.remedy(conflict.remedy)
}

fn pairs(settings: &Settings, conflicts: &mut Vec<Conflict>) {
    if !settings.expandable_segments() {
        return;
    }
    if let Some(bytes) = settings.max_split_bytes() {
        conflicts.push(Conflict::warning(
            "expandable-segments-with-max-split-size",
            format!(
                "expandable_segments:True and a max_split_size of {} are both set: blocks of expandable segments are \
                 split whatever the limit says",
                Bytes(bytes)
            ),
            "Keep expandable_segments:True and take max_split_size_mb out: it was a means against fragmentation where \
             segments could not grow, and some releases of PyTorch end in an internal assertion after an OOM with both.",
        ));
    }
    let threshold = settings.garbage_collection_threshold();
    if threshold > 0.0 {
        conflicts.push(Conflict::warning(
            "expandable-segments-with-garbage-collection",
            format!(
                "expandable_segments:True and garbage_collection_threshold:{threshold} are both set: blocks of \
                 expandable segments are never collected"
            ),
            "Keep expandable_segments:True and take garbage_collection_threshold out: it has nothing to collect, and \
             some releases of PyTorch end in an internal assertion after an OOM with both.",
        ));
    }
}

/// The setting is on, yet segments are obtained whole.
fn without_effect(trace: &Trace) -> Option<Conflict> {
    if !trace.settings.expandable_segments() {
        return None;
    }
    let mut whole = 0;
    for device in &trace.devices {
        let segments = device.segments.iter().flatten();
        let ordinary = segments.filter(|segment| segment.pool == PoolId::DEFAULT);
        for segment in ordinary {
            if segment.is_expandable {
                return None;
            }
            whole += 1;
        }
        if device.events.actions.contains(&Action::SegmentMap) {
            return None;
        }
        if device.segments.is_none() {
            whole += device.events.actions.iter().filter(|&&action| action == Action::SegmentAlloc).count();
        }
    }
    (whole > 0).then(|| {
        Conflict::warning(
            "expandable-segments-not-active",
            format!(
                "expandable_segments:True is set, but none of {} segments is expandable: it has no effect",
                Count(whole as u64)
            ),
            "The platform or build does not support expandable segments (Windows, builds without the driver's virtual \
             memory functions, older ROCm; PyTorch warned of it once at the start), or they were switched on after the \
             memory had been obtained. Where they cannot be had, max_split_size_mb is the other means against \
             fragmentation.",
        )
    })
}

/// The collector runs only where the process may use a part of the device.
fn without_limit(trace: &Trace, device: DeviceId) -> Option<Conflict> {
    let threshold = trace.settings.garbage_collection_threshold();
    if threshold <= 0.0 || trace.settings.expandable_segments() {
        return None;
    }
    let fraction = trace.memory_fraction(device);
    let is_limited = fraction.is_some_and(|fraction| fraction < 1.0);
    if is_limited || trace.devices.iter().any(is_collecting) {
        return None;
    }
    let title = format!(
        "garbage_collection_threshold:{threshold} is set without a memory limit{}: it does nothing",
        if fraction.is_some() { "" } else { " that the recording shows" }
    );
    let remedy = "The threshold is a share of the limit set by torch.cuda.set_per_process_memory_fraction() (or \
         per_process_memory_fraction, from 2.10 on), and without such a limit nothing is collected: set one, or take the \
         threshold out. A limit set by a call leaves no mark in a snapshot; with one, ignore this.";
    let severity = if fraction.is_some() { Severity::Warning } else { Severity::Info };
    Some(Conflict { kind: "garbage-collection-without-limit", severity, title, remedy })
}

/// Options that only the native allocator reads.
const NATIVE_ONLY: [&str; 7] = [
    "max_split_size_mb",
    "max_non_split_rounding_mb",
    "garbage_collection_threshold",
    "roundup_power2_divisions",
    "roundup_bypass_threshold_mb",
    "expandable_segments",
    "large_segment_size_mb",
];

fn other_backend(settings: &Settings) -> Option<Conflict> {
    if settings.conf_value("backend") != Some("cudaMallocAsync") {
        return None;
    }
    let ignored: Vec<&str> =
        NATIVE_ONLY.into_iter().filter(|key| settings.conf_value(key).is_some()).collect();
    (!ignored.is_empty()).then(|| {
        Conflict::warning(
            "other-backend",
            format!("backend:cudaMallocAsync is set together with {}, which only the native allocator reads", ignored.join(", ")),
            "Take the options out, or the backend: the driver's pool does not know them. (PyTorch records no events \
             under cudaMallocAsync.)",
        )
    })
}

/// Keys and values of the configuration text. Commas inside brackets part values, not keys.
fn conf_keys(settings: &Settings) -> Vec<(&str, &str)> {
    let mut keys = Vec::new();
    let (mut depth, mut start) = (0usize, 0);
    let conf = settings.conf();
    let ends = conf.char_indices().chain([(conf.len(), ',')]);
    for (at, character) in ends {
        match character {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 || at == conf.len() => {
                let part = conf.get(start..at).unwrap_or_default().trim();
                let (key, value) = part.split_once(':').unwrap_or((part, ""));
                if !key.trim().is_empty() {
                    keys.push((key.trim(), value.trim()));
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    keys
}

/// A value that PyTorch does not take.
fn refused(key: &str, value: &str) -> Option<Conflict> {
    const LEAST_SPLIT_MIB: u64 = 20;
    let why = match key {
        "max_split_size_mb" => match value.parse::<u64>() {
            Ok(mib) if mib >= LEAST_SPLIT_MIB => return None,
            _ => "it must be above 20, the size of an ordinary large segment",
        },
        "garbage_collection_threshold" => match value.parse::<f64>() {
            Ok(part) if part > 0.0 && part < 1.0 => return None,
            _ => "it must lie between 0 and 1",
        },
        _ if SWITCHES.contains(&key) => match value {
            "True" | "False" => return None,
            _ => "it must be True or False, written so",
        },
        _ => return None,
    };
    Some(Conflict::warning(
        "value-refused",
        format!("{key}:{} is no value that PyTorch takes: {why}", shortened(value)),
        "Correct the value: PyTorch refuses the whole configuration with an error when it reads it.",
    ))
}

/// Settings that are on or off.
const SWITCHES: [&str; 6] = [
    "expandable_segments",
    "release_lock_on_cudamalloc",
    "graph_capture_record_stream_reuse",
    "pinned_use_cuda_host_register",
    "pinned_use_background_threads",
    "throw_on_cudamalloc_oom",
];

/// Keys of the native allocator's configuration and the release that has them first.
const KEYS: [(&str, (u64, u64)); 21] = [
    ("max_split_size_mb", (1, 10)),
    ("roundup_power2_divisions", (1, 12)),
    ("roundup_bypass_threshold_mb", (1, 12)),
    ("garbage_collection_threshold", (1, 12)),
    ("backend", (2, 0)),
    ("expandable_segments", (2, 1)),
    ("release_lock_on_cudamalloc", (2, 1)),
    ("pinned_use_cuda_host_register", (2, 1)),
    ("pinned_num_register_threads", (2, 1)),
    ("pinned_use_background_threads", (2, 1)),
    ("max_non_split_rounding_mb", (2, 4)),
    ("graph_capture_record_stream_reuse", (2, 9)),
    ("per_process_memory_fraction", (2, 10)),
    ("pinned_reserve_segment_size_mb", (2, 10)),
    ("large_segment_size_mb", (2, 11)),
    ("throw_on_cudamalloc_oom", (2, 12)),
    ("pinned_free_catch_all", (2, 12)),
    ("pinned_max_round_threshold_mb", (2, 13)),
    ("pinned_max_cached_size_mb", (2, 13)),
    ("expandable_segments_reserve", (2, 15)),
    ("expandable_segments_reserve_by_class", (2, 15)),
];

fn unknown(key: &str, torch: Option<(u64, u64)>) -> Option<Conflict> {
    let known = KEYS.iter().find(|(name, _)| *name == key);
    let title = match (known, torch) {
        (None, _) => format!("{} is no setting of any release of PyTorch up to 2.15", shortened(key)),
        (Some((_, since)), Some(torch)) if torch < *since => {
            format!(
                "{key} is a setting from PyTorch {}.{} on, and this is {}.{}",
                since.0, since.1, torch.0, torch.1
            )
        }
        _ => return None,
    };
    let remedy = "Look for a misspelling, or take it out: most releases refuse a configuration with an unknown key, \
         others ignore the key.";
    Some(Conflict { kind: "unknown-key", severity: Severity::Warning, title, remedy })
}

/// A text of the file, short enough for a title.
fn shortened(text: &str) -> String {
    const MOST: usize = 40;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST).chain(['\u{2026}']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Segment, SettingValue, TraceBuilder};

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7000_0000_0000;

    fn with_conf(conf: &str) -> TraceBuilder {
        let text = SettingValue::Text(conf.to_owned());
        TraceBuilder::new().setting("PYTORCH_CUDA_ALLOC_CONF", text).segment_alloc(A, 20 * MIB)
    }

    fn kinds(trace: &Trace) -> Vec<(String, Severity)> {
        let found = find(trace, &[DeviceFacts::default()]);
        let kind = |finding: &Finding| finding.evidence["kind"].as_str().unwrap().to_owned();
        found.iter().map(|finding| (kind(finding), finding.severity)).collect()
    }

    fn names(conf: &str) -> Vec<String> {
        let trace = with_conf(conf).event(Action::SegmentMap, A + (1 << 32), 20 * MIB).build();
        kinds(&trace).into_iter().map(|(kind, _)| kind).collect()
    }

    #[test]
    fn pairs_that_fight_are_told() {
        let both = "expandable_segments:True,max_split_size_mb:128";
        assert_eq!(names(both), ["expandable-segments-with-max-split-size"]);
        let three = "expandable_segments:True,max_split_size_mb:128,garbage_collection_threshold:0.8";
        assert_eq!(names(three).len(), 2);
        assert!(names("expandable_segments:True").is_empty());
        assert!(names("max_split_size_mb:128").is_empty());
        assert!(names("").is_empty());
    }

    #[test]
    fn recorded_settings_count_as_the_text_does() {
        let recorded = TraceBuilder::new()
            .setting("expandable_segments", SettingValue::Bool(true))
            .setting("max_split_size", SettingValue::Int(0))
            .event(Action::SegmentMap, A, 20 * MIB);
        assert_eq!(kinds(&recorded.build())[0].0, "expandable-segments-with-max-split-size");
        let unlimited = TraceBuilder::new()
            .setting("expandable_segments", SettingValue::Bool(true))
            .setting("max_split_size", SettingValue::Int(-1))
            .event(Action::SegmentMap, A, 20 * MIB);
        assert!(kinds(&unlimited.build()).is_empty());
    }

    #[test]
    fn expandable_segments_that_are_none_are_told() {
        let on = || with_conf("expandable_segments:True");
        let segment =
            |is_expandable| Segment { address: A, bytes: 20 * MIB, is_expandable, ..Segment::default() };
        let silent = kinds(&on().segments(vec![segment(false)]).build());
        assert_eq!(silent, [("expandable-segments-not-active".to_owned(), Severity::Warning)]);
        assert!(kinds(&on().segments(vec![segment(true)]).build()).is_empty());
        assert!(kinds(&on().segments(Vec::new()).build()).is_empty(), "nothing was obtained");
        assert_eq!(kinds(&on().build()).len(), 1, "a killed job's events");
        let pool = Segment { pool: PoolId(1, 0), ..segment(false) };
        assert!(kinds(&on().segments(vec![pool]).build()).is_empty(), "private pools are another matter");
    }

    #[test]
    fn collecting_needs_a_limit() {
        let collect = || with_conf("garbage_collection_threshold:0.8");
        let (kind, severity) = kinds(&collect().build()).remove(0);
        assert_eq!((kind.as_str(), severity), ("garbage-collection-without-limit", Severity::Info));
        let stated = |fraction: f64| {
            let mut trace = collect().build();
            trace.process.other.insert("memory_fraction".to_owned(), fraction.into());
            kinds(&trace)
        };
        assert!(stated(0.5).is_empty());
        assert_eq!(stated(1.0)[0].1, Severity::Warning);
        assert!(names("garbage_collection_threshold:0.8,per_process_memory_fraction:0.5").is_empty());
        // The allocator returns a segment and obtains another in one call: it collects.
        let seen =
            collect().at("a.py", 1, "f").segment_free(A, 20 * MIB).segment_alloc(A + (1 << 33), 40 * MIB);
        assert!(kinds(&seen.build()).is_empty());
    }

    #[test]
    fn values_and_keys_that_pytorch_refuses_are_told() {
        assert_eq!(names("max_split_size_mb:16"), ["value-refused"]);
        assert_eq!(names("expandable_segments:true"), ["value-refused"]);
        assert_eq!(
            names("garbage_collection_threshold:1.5,per_process_memory_fraction:0.5"),
            ["value-refused"]
        );
        assert_eq!(names("max_split_size:128"), ["unknown-key"]);
        assert_eq!(names("backend:cudaMallocAsync,max_split_size_mb:128"), ["other-backend"]);
        assert!(names("roundup_power2_divisions:[256:1,512:2,>:8], max_split_size_mb:64").is_empty());
        let mut old = with_conf("large_segment_size_mb:40").build();
        assert!(kinds(&old).is_empty());
        old.process.torch_version = Some("2.9.1+cu128".to_owned());
        assert_eq!(kinds(&old)[0].0, "unknown-key");
    }
}
