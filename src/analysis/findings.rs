//! Findings as rows of the report.
//!
//! So far one rule, `fragmentation`: an OOM that free memory would have served, had it been in one piece.
//! Owns the wording and the evidence; the verdict is `findings`', what a setting would save is `simulate`'s.

use serde_json::{Map, Value, json};

use crate::report::{DeviceReport, FindingLine, FindingRow, Fragmentation, HelpRow, OomRow, PinRow};
use crate::units::{Bytes, Count};

/// Lines that a finding names at most.
const LINES: usize = 5;

/// What the rules say of `device`.
pub(super) fn of_device(device: &DeviceReport) -> Vec<FindingRow> {
    let fragmented = device.ooms.iter().rev().find(|oom| oom.verdict == "fragmentation");
    let state = device.fragmentation.at_oom.as_ref();
    fragmented.zip(state).map(|(oom, state)| fragmentation(device, oom, state)).into_iter().collect()
}

/// The state is that of the last OOM: with several, the rule speaks of the last.
fn fragmentation(device: &DeviceReport, oom: &OomRow, state: &Fragmentation) -> FindingRow {
    let help = device.what_would_help.as_ref();
    FindingRow {
        rule: "fragmentation".to_owned(),
        severity: "error",
        title: format!(
            "{} were asked for and {} are free inside segments, in {} pieces of at most {}",
            Bytes(oom.requested_bytes),
            Bytes(state.stranded_bytes),
            Count(state.stranded_blocks),
            Bytes(state.largest_stranded_block_bytes)
        ),
        bytes: state.stranded_bytes,
        device: device.device,
        lines: state.pins.iter().filter_map(line).take(LINES).collect(),
        evidence: evidence(oom, state, help),
        remedy: help.and_then(remedy).unwrap_or_else(general_remedy),
    }
}

fn line(pin: &PinRow) -> Option<FindingLine> {
    Some(FindingLine {
        file: pin.file.clone()?,
        line: pin.line?,
        function: pin.function.clone().unwrap_or_default(),
        bytes: pin.stranded_bytes,
    })
}

fn evidence(oom: &OomRow, state: &Fragmentation, help: Option<&HelpRow>) -> Map<String, Value> {
    let mut facts = Map::new();
    let mut put = |name: &str, value: Value| facts.insert(name.to_owned(), value);
    put("event", json!(oom.event));
    put("requested_bytes", json!(oom.requested_bytes));
    put("device_free_bytes", json!(oom.device_free_bytes));
    put("stranded_bytes", json!(state.stranded_bytes));
    put("stranded_blocks", json!(state.stranded_blocks));
    put("largest_free_block_bytes", json!(oom.largest_free_block_bytes));
    let setting = help.and_then(|help| {
        let conf = help.recommendation.conf.as_ref()?;
        help.settings.iter().find(|setting| setting.conf == *conf)
    });
    if let Some(setting) = setting {
        put("remedy_conf", json!(setting.conf));
        put("remedy_fits", json!(setting.oom_event.is_none()));
        put("remedy_peak_reserved_bytes", json!(setting.peak_reserved_bytes));
        put("remedy_saved_bytes", json!(setting.saved_bytes));
    }
    facts
}

/// The setting that a replay recommends, and why.
fn remedy(help: &HelpRow) -> Option<String> {
    let conf = help.recommendation.conf.as_deref().filter(|conf| !conf.is_empty())?;
    Some(format!("Use PYTORCH_CUDA_ALLOC_CONF={conf}. {}", help.recommendation.reason))
}

/// Where no setting was replayed (the recording is too long for that on the way), or none helps.
fn general_remedy() -> String {
    "Free or move the blocks of the lines named here before the large request, or let the allocator grow its \
     segments (expandable_segments:True); `memlab whatif` says what that would save."
        .to_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::analysis::{Options, analyze};
    use crate::model::TraceBuilder;

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7f00_0000_0000;

    fn comb(holes: u64) -> TraceBuilder {
        let mut builder = TraceBuilder::new();
        for index in 0..holes {
            let at = A + index * 64 * MIB;
            builder = builder.at("cache.py", 9, "keep").segment_alloc(at, 40 * MIB);
            builder = builder.alloc(at, 15 * MIB).alloc(at + 15 * MIB, 25 * MIB).free(at, 15 * MIB);
        }
        builder.at("train.py", 3, "step")
    }

    #[test]
    fn an_oom_for_fragmentation_is_a_finding_with_its_line() {
        let trace = comb(10).oom(50 * MIB, 10 * MIB).build();
        let report = analyze("x", &trace, &Options::default()).unwrap();
        assert_eq!(report.findings.len(), 1);
        let finding = &report.findings[0];
        assert_eq!((finding.rule.as_str(), finding.severity), ("fragmentation", "error"));
        assert_eq!((finding.bytes, finding.lines[0].file.as_str()), (150 * MIB, "cache.py"));
        assert_eq!(finding.evidence["stranded_blocks"], 10);
        assert!(!finding.remedy.is_empty());
    }

    #[test]
    fn an_oom_for_capacity_is_not() {
        let full =
            TraceBuilder::new().segment_alloc(A, 400 * MIB).alloc(A, 400 * MIB).oom(64 * MIB, 0).build();
        assert!(analyze("x", &full, &Options::default()).unwrap().findings.is_empty());
    }
}
