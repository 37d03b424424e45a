//! A request failed although enough was free, in pieces.

use crate::error::Result;
use crate::findings::{Finding, JudgedOom, Scene, Severity, VerdictKind};
use crate::tables;
use crate::units::{Bytes, Count};

use super::RULE;

pub(super) fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let fragmented = scene.ooms.iter().rfind(|oom| oom.verdict.kind == VerdictKind::Fragmentation);
    fragmented.map(|oom| at_oom(scene, oom)).into_iter().collect()
}

/// The state is that of the last OOM: with several, the rule speaks of the last.
fn at_oom(scene: &Scene<'_>, judged: &JudgedOom) -> Result<Finding> {
    let moment = crate::rebuild::Moment(judged.oom.event);
    let state = scene.history.state_at(moment);
    let figures = tables::fragmentation(&state, moment, scene.lines)?;
    let title = format!(
        "{} were asked for and {} are free inside segments, in {} pieces of at most {}",
        Bytes(judged.oom.size),
        Bytes(figures.stranded_bytes),
        Count(figures.stranded_blocks),
        Bytes(figures.largest_stranded_block_bytes)
    );
    let pins = figures.pins.iter();
    let lines = pins.filter_map(|pin| scene.line_of_group(pin.group?, pin.stranded_bytes)).collect();
    let mut finding = Finding::new(&RULE, Severity::Error, scene.id(), figures.stranded_bytes, title)
        .lines(lines)
        .evidence("event", judged.oom.event)
        .evidence("requested_bytes", judged.oom.size)
        .evidence("device_free_bytes", judged.oom.device_free_bytes)
        .evidence("stranded_bytes", figures.stranded_bytes)
        .evidence("stranded_blocks", figures.stranded_blocks)
        .evidence("largest_free_block_bytes", judged.verdict.largest_free_block_bytes);
    let Some(setting) = &scene.setting else { return Ok(finding.remedy(GENERAL_REMEDY)) };
    finding = finding
        .evidence("remedy_conf", setting.conf.clone())
        .evidence("remedy_fits", setting.fits)
        .evidence("remedy_peak_reserved_bytes", setting.peak_reserved_bytes)
        .evidence("remedy_saved_bytes", setting.saved_bytes);
    Ok(finding.remedy(format!("Use PYTORCH_CUDA_ALLOC_CONF={}. {}", setting.conf, setting.reason)))
}

/// Where no setting was replayed (the recording is too long for that on the way), or none helps.
const GENERAL_REMEDY: &str = "Free or move the blocks of the lines named here before the large request, or let \
    the allocator grow its segments (expandable_segments:True); `memlab whatif` says what that would save.";

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::findings::Severity;
    use crate::findings::scene::samples::found;
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
        let found = found("fragmentation", &comb(10).oom(50 * MIB, 10 * MIB).build(), None);
        assert_eq!(found.len(), 1);
        let finding = &found[0];
        assert_eq!(finding.severity, Severity::Error);
        assert_eq!((finding.bytes, finding.lines[0].file.as_str()), (150 * MIB, "cache.py"));
        assert_eq!(finding.evidence["stranded_blocks"], 10);
        assert!(!finding.remedy.is_empty());
    }

    #[test]
    fn an_oom_for_capacity_is_not() {
        let full =
            TraceBuilder::new().segment_alloc(A, 400 * MIB).alloc(A, 400 * MIB).oom(64 * MIB, 0).build();
        assert!(found("fragmentation", &full, None).is_empty());
    }
}
