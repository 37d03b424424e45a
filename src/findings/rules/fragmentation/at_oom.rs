//! A request failed although enough was free, in pieces.

use serde_json::{Value, json};

use crate::error::Result;
use crate::findings::oom::{Case, against_pieces, replayed};
use crate::findings::{Finding, Scene, Severity, VerdictKind};
use crate::rebuild::Moment;
use crate::tables::{self, Fragmentation, HoleClass, Pin};
use crate::units::{Bytes, Count};

use super::RULE;

/// Below this share of reserved memory (in percent), more than crumbs but not much: the verdict is less sure.
const SURE_FROM_PERCENT: u64 = 10;

pub(super) fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let case = Case::last(scene, |verdict| verdict.kind == VerdictKind::Fragmentation);
    case.map(|case| told(scene, &case)).into_iter().collect()
}

fn told(scene: &Scene<'_>, case: &Case<'_>) -> Result<Finding> {
    let sums = &case.verdict().sums;
    let figures = tables::fragmentation(&case.state, Moment(case.judged.oom.event), scene.lines)?;
    let title = format!(
        "{} were asked for and {} are free inside segments, in {} pieces of at most {}",
        Bytes(sums.request_bytes),
        Bytes(figures.stranded_bytes),
        Count(figures.stranded_blocks),
        Bytes(figures.largest_stranded_block_bytes)
    );
    let is_sure =
        sums.slack_bytes.saturating_mul(100) >= sums.reserved_bytes.saturating_mul(SURE_FROM_PERCENT);
    let pinning = figures.pins.first().copied().unwrap_or_default();
    let pins = figures.pins.iter();
    let lines = pins.filter_map(|pin| scene.line_of_group(pin.group?, pin.stranded_bytes)).collect();
    let finding = case
        .finding(&RULE, Severity::Error, figures.stranded_bytes, title)
        .lines(lines)
        .evidence("stranded_bytes", figures.stranded_bytes)
        .evidence("stranded_blocks", figures.stranded_blocks)
        .evidence("largest_stranded_block_bytes", figures.largest_stranded_block_bytes)
        .evidence("pinning_blocks", pinning.blocks)
        .evidence("pinning_bytes", pinning.block_bytes)
        .evidence("sole_stranded_bytes", pinning.sole_stranded_bytes)
        .evidence("holes", holes(&figures))
        .evidence("confidence", if is_sure { "high" } else { "low" });
    let (mut finding, change) = case.with_smallest_change(finding);
    let setting = match replayed(scene) {
        Some((said, setting)) => {
            finding = finding.with_setting(setting);
            said
        }
        None => against_pieces(scene, &case.state, sums.request_bytes),
    };
    let remedy = [pinned_by(scene, pinning), elsewhere(case), change, Some(setting)];
    Ok(finding.remedy(remedy.into_iter().flatten().collect::<Vec<_>>().join(" ")))
}

/// How many pieces there are of which size, by powers of two.
fn holes(figures: &Fragmentation) -> Value {
    let pinned = figures.holes.iter().filter(|class| class.stranded_blocks > 0);
    let one = |class: &HoleClass| {
        json!({ "at_least_bytes": 1_u64 << class.power.min(63), "blocks": class.stranded_blocks,
            "bytes": class.stranded_bytes })
    };
    pinned.map(one).collect()
}

/// Who is most in the way.
fn pinned_by(scene: &Scene<'_>, pin: Pin) -> Option<String> {
    let line = scene.line_of_group(pin.group?, pin.stranded_bytes)?;
    let (blocks, are) = (Count(pin.blocks), if pin.blocks == 1 { "block keeps" } else { "blocks keep" });
    Some(format!(
        "{blocks} {are} {} of free memory in their segments ({} in all, of {}): free them earlier, or allocate them \
         before what is short-lived.",
        Bytes(pin.stranded_bytes),
        Bytes(pin.block_bytes),
        line.label()
    ))
}

/// A block that would have done, had it been this stream's.
fn elsewhere(case: &Case<'_>) -> Option<String> {
    let sums = &case.verdict().sums;
    (sums.largest_elsewhere_bytes >= sums.request_bytes).then(|| {
        format!(
            "A free block of {} would have done, but belongs to another stream: blocks are reused only on their own.",
            Bytes(sums.largest_elsewhere_bytes)
        )
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::findings::Severity;
    use crate::findings::scene::samples::found;
    use crate::model::{SettingValue, TraceBuilder};

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7f00_0000_0000;

    /// Segments of a hole and a block that pins it.
    fn comb(segments: u64, hole: u64, pin: u64) -> TraceBuilder {
        let mut builder = TraceBuilder::new();
        for index in 0..segments {
            let at = A + index * 2 * (hole + pin) * MIB;
            builder =
                builder.at("cache.py", 9, "keep").segment_alloc(at, (hole + pin) * MIB).alloc(at, hole * MIB);
            builder = builder.alloc(at + hole * MIB, pin * MIB).free(at, hole * MIB);
        }
        builder.at("train.py", 3, "step")
    }

    #[test]
    fn the_line_that_pins_and_the_fewest_blocks_are_named() {
        let found = found("fragmentation", &comb(10, 15, 25).oom(90 * MIB, 10 * MIB).build(), None);
        assert_eq!(found.len(), 1);
        let finding = &found[0];
        assert_eq!(finding.severity, Severity::Error);
        assert_eq!((finding.bytes, finding.lines[0].file.as_str()), (150 * MIB, "cache.py"));
        assert_eq!(
            (&finding.evidence["stranded_blocks"], &finding.evidence["pinning_blocks"]),
            (&10.into(), &10.into())
        );
        // Two segments of 40 MiB and the 10 MiB that are free give a new segment of 90 MiB.
        assert_eq!(
            (&finding.evidence["change_blocks"], &finding.evidence["change_bytes"]),
            (&2.into(), &(50 * MIB).into())
        );
        assert_eq!(finding.evidence["change_lines"][0]["line"], 9);
        assert!(finding.remedy.contains("expandable_segments:True"), "{}", finding.remedy);
    }

    /// The shape of a posted case: 35.6 GiB asked, 27 free, 12 holes of 4,032 MiB.
    #[test]
    fn a_dozen_small_keepers_strand_half_a_card() {
        let run = comb(12, 4032, 64)
            .segment_alloc(A - 65_536 * MIB, 65_536 * MIB)
            .alloc(A - 65_536 * MIB, 65_536 * MIB);
        let found = found("fragmentation", &run.oom(36 * 1024 * MIB, 27 * 1024 * MIB).build(), None);
        let finding = &found[0];
        assert_eq!((finding.bytes, &finding.evidence["stranded_blocks"]), (12 * 4032 * MIB, &12.into()));
        assert_eq!(
            (&finding.evidence["pinning_blocks"], &finding.evidence["pinning_bytes"]),
            (&12.into(), &(768 * MIB).into())
        );
        assert_eq!(
            (&finding.evidence["change_blocks"], &finding.evidence["change_bytes"]),
            (&3.into(), &(192 * MIB).into())
        );
        assert_eq!(finding.evidence["confidence"], "high");
    }

    #[test]
    fn a_hole_on_another_stream_is_pointed_out() {
        let run = comb(10, 15, 25).stream(5).oom(14 * MIB, 10 * MIB);
        let found = found("fragmentation", &run.build(), None);
        assert_eq!(found[0].evidence["largest_free_block_bytes"], 0);
        assert!(found[0].remedy.contains("belongs to another stream"), "{}", found[0].remedy);
    }

    #[test]
    fn a_setting_that_is_on_is_not_advised() {
        let run = comb(10, 15, 25).setting("expandable_segments", SettingValue::Bool(true));
        let found = found("fragmentation", &run.oom(90 * MIB, 10 * MIB).build(), None);
        assert!(!found[0].remedy.contains("expandable_segments:True"), "{}", found[0].remedy);
    }

    #[test]
    fn little_slack_makes_it_less_sure() {
        let found = found("fragmentation", &comb(40, 2, 38).oom(75 * MIB, 20 * MIB).build(), None);
        assert_eq!(found[0].evidence["confidence"], "low");
    }

    #[test]
    fn an_oom_for_capacity_is_not() {
        let full =
            TraceBuilder::new().segment_alloc(A, 400 * MIB).alloc(A, 400 * MIB).oom(64 * MIB, 0).build();
        assert!(found("fragmentation", &full, None).is_empty());
    }
}
