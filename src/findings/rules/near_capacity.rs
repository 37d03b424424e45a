//! `near-capacity`: nearly full, and what is free are crumbs.

use crate::error::Result;
use crate::findings::oom::{Case, against_pieces, replayed};
use crate::findings::{Check, Finding, Guide, Rule, Scene, Severity, VerdictKind};
use crate::units::{Bytes, percent};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "near-capacity",
    heading: "Nearly full, and what is free are crumbs",
    guide: Guide {
        says: "A request failed on a device (or under a limit) that is nearly full. Neither the free bytes of the device \
            nor the free bytes inside PyTorch's segments would have served it; only both together. The finding says \
            both ways out: how many bytes more the device would have had to have free, or that the crumbs would have \
            had to be one piece.",
        fires: "On an `oom` event whose request is at most `free + slack` (slack is `reserved - active` of the request's \
            pool), where slack is less than 3 % of reserved, and live memory is at least 90 % of the device or nothing \
            outside the allocator explains the rest.",
        why: "A rule that looks at percentages alone would call this capacity, one that compares sums alone would call \
            it fragmentation; both would send you the wrong way. Every allocator leaves crumbs: under 3 % of reserved \
            is as good as it gets, so the job simply has no reserve.",
        needs: "An `oom` event with the device's free bytes, and either a recording from the first allocation or the \
            final segments.",
        is_not: "It is not a sign of an unusual amount of fragmentation. Expandable segments may let this very request \
            through; the next one will fail all the same.",
        remedy: "Win a reserve: a slightly smaller batch, or freeing the line that the finding names. If only a little \
            is missing, expandable segments may collect the crumbs.",
    },
    check: Check::Device(find),
};

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let case = Case::last(scene, |verdict| verdict.cause == VerdictKind::NearCapacity);
    Ok(case.map(|case| told(scene, &case)).into_iter().collect())
}

fn told(scene: &Scene<'_>, case: &Case<'_>) -> Finding {
    let verdict = case.verdict();
    let (sums, room) = (&verdict.sums, verdict.room_bytes());
    let more_free = sums.segment_bytes.saturating_sub(room);
    let place = if verdict.refusal.cap().is_some() { "under the limit" } else { "on the device" };
    let title = format!(
        "{} were asked for: {} free {place} and {} free in pieces inside segments ({} of reserved) are enough only in sum",
        Bytes(sums.request_bytes),
        Bytes(room),
        Bytes(sums.slack_bytes),
        percent(sums.slack_bytes, sums.reserved_bytes)
    );
    let finding = case
        .finding(&RULE, Severity::Error, more_free, title)
        .evidence("room_bytes", room)
        .evidence("missing_free_bytes", more_free)
        .evidence("free_and_slack_bytes", room.saturating_add(sums.slack_bytes));
    let (mut finding, change) = case.with_smallest_change(finding);
    let first = format!("Two ways out: {} more free {place}, or the free pieces in one.", Bytes(more_free));
    let pieces = match replayed(scene) {
        Some((said, setting)) => {
            finding = finding.with_setting(setting);
            said
        }
        None => against_pieces(scene, &case.state, sums.request_bytes),
    };
    let reserve = "The job has no reserve: a slightly smaller batch is the lasting cure.".to_owned();
    let remedy: Vec<String> =
        [Some(first), change, Some(pieces), Some(reserve)].into_iter().flatten().collect();
    finding.remedy(remedy.join(" "))
}

#[cfg(test)]
mod tests {
    use crate::findings::Severity;
    use crate::findings::scene::samples::found;
    use crate::model::{SettingValue, TraceBuilder};

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7f00_0000_0000;

    /// Shape of the posted case: 384 MiB asked, 330 free, 402 in crumbs of 18.8 GiB, on 19.5 GiB.
    fn crumbs(hole: u64) -> TraceBuilder {
        let mut run = TraceBuilder::new().at("serve.py", 5, "prefill");
        for index in 0..47 {
            let at = A + index * 400 * MIB;
            run = run
                .segment_alloc(at, 400 * MIB)
                .alloc(at, hole * MIB)
                .alloc(at + hole * MIB, (400 - hole) * MIB);
            run = run.free(at, hole * MIB);
        }
        run
    }

    #[test]
    fn both_ways_out_are_said() {
        let found = found("near-capacity", &crumbs(8).oom(384 * MIB, 330 * MIB).build(), Some(19_999 * MIB));
        let finding = &found[0];
        assert_eq!((finding.severity, finding.bytes), (Severity::Error, 54 * MIB));
        assert_eq!(finding.evidence["missing_free_bytes"], 54 * MIB);
        assert_eq!(finding.evidence["slack_bytes"], 376 * MIB);
        assert_eq!(finding.evidence["free_and_slack_bytes"], 706 * MIB);
        assert!(
            finding.remedy.starts_with("Two ways out: 54.0 MiB more free on the device"),
            "{}",
            finding.remedy
        );
    }

    #[test]
    fn three_percent_are_no_crumbs_and_too_little_in_sum_is_capacity() {
        let more = crumbs(12).oom(384 * MIB, 330 * MIB).build();
        assert!(found("near-capacity", &more, Some(19_999 * MIB)).is_empty());
        assert_eq!(found("fragmentation", &more, Some(19_999 * MIB)).len(), 1);
        let less = crumbs(1).oom(384 * MIB, 330 * MIB).build();
        assert!(found("near-capacity", &less, Some(19_999 * MIB)).is_empty());
        assert_eq!(found("capacity", &less, Some(19_999 * MIB)).len(), 1);
    }

    #[test]
    fn a_setting_that_is_on_is_not_advised() {
        let on = crumbs(8).setting("expandable_segments", SettingValue::Bool(true)).oom(384 * MIB, 330 * MIB);
        let found = found("near-capacity", &on.build(), Some(19_999 * MIB));
        assert!(!found[0].remedy.contains("expandable_segments:True"), "{}", found[0].remedy);
    }
}
