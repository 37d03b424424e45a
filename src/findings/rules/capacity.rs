//! `capacity`: more is live than fits.

use serde_json::{Value, json};

use crate::error::Result;
use crate::findings::oom::{Case, replayed};
use crate::findings::{
    Cap, Check, Finding, Guide, LineBytes, Refusal, Rule, Scene, Severity, Verdict, VerdictKind,
};
use crate::units::{Bytes, Count};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "capacity",
    heading: "More is live than fits",
    guide: Guide {
        says: "A request failed, and all free memory put together would not have served it: what the job keeps alive is \
            too much for the device, or for the limit that was set on the process. The finding says how many bytes were \
            missing, who held the memory at that moment, and which lines could give the missing bytes.",
        fires: "On an `oom` event whose request is larger than the free bytes of the device plus the free bytes inside \
            PyTorch's segments (`reserved - active`, of the request's pool). Under a limit (`memory-cap`) what is left \
            of the limit takes the place of the device's free bytes. It does not fire where the request alone is larger \
            than the device (`huge-request`), where pending frees would have made room (`pending-at-oom`), or where \
            memory held outside the allocator made the difference (`outside-allocator`).",
        why: "The sum is the most that any allocator could have offered, with every free byte in one piece. If that is \
            too little, neither settings nor `empty_cache()` help. Free blocks of private pools (CUDA graphs) are not \
            counted, as the request may not use them. When the limit is not recorded, as after \
            `set_per_process_memory_fraction` in a plain snapshot, only what is certain to have been left is counted, \
            and the missing bytes are an upper bound.",
        needs: "An `oom` event with the device's free bytes, and either a recording from the first allocation or the \
            final segments. Lines need stacks.",
        is_not: "It is not fragmentation: `reserved but unallocated` in the error text may be large in megabytes and \
            still be too little. It does not say that the largest line is wrong, only that it is large: weights and \
            optimizer state must live. A leak that filled the device ends here too; look for `growth` beside it.",
        remedy: "Shorten the list of what is live at that moment: a smaller batch or sequence, activation checkpointing, \
            a sharded or lower-precision optimizer, freeing what is no longer needed. The finding names the smallest \
            line that holds enough, and the fewest blocks without which this one request would have been served.",
    },
    check: Check::Device(find),
};

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let case = Case::last(scene, |verdict| verdict.cause == VerdictKind::Capacity);
    Ok(case.map(|case| told(scene, &case)).into_iter().collect())
}

fn told(scene: &Scene<'_>, case: &Case<'_>) -> Finding {
    let verdict = case.verdict();
    let missing = verdict.missing_bytes();
    let givers = Givers::of(scene, case, missing);
    let finding = case
        .finding(&RULE, Severity::Error, missing, title(verdict))
        .evidence("missing_bytes", missing)
        .evidence("missing_at_least_bytes", verdict.missing_at_least_bytes())
        .evidence("missing_is_exact", verdict.missing_at_least_bytes() == missing)
        .evidence("lines_that_could_give", givers.json())
        .evidence("fewest_lines_that_could_give", givers.fewest);
    let (mut finding, change) = case.with_smallest_change(finding);
    let setting = match replayed(scene) {
        Some((said, setting)) => {
            finding = finding.with_setting(setting);
            said
        }
        None => {
            "No allocator setting helps: shrink what is live at that moment (batch, sequence, checkpointing, \
                 sharding)."
                .to_owned()
        }
    };
    let pools = verdict.sums.private_free_bytes;
    let pools = (pools >= missing).then(|| {
        format!(
            "{} are free in private pools, which only their own graphs or streams may use: fewer or smaller graphs give \
             them back.",
            Bytes(pools)
        )
    });
    let remedy = [pools, Some(givers.said(missing)), change, Some(setting), device_unknown(verdict)];
    finding.remedy(remedy.into_iter().flatten().collect::<Vec<_>>().join(" "))
}

/// Where nobody says how large the device is, others may hold a part of it.
fn device_unknown(verdict: &Verdict) -> Option<String> {
    let (Refusal::DeviceFull, None) = (verdict.refusal, verdict.total_bytes) else { return None };
    let sums = &verdict.sums;
    let known = sums.reserved_bytes.saturating_add(sums.device_free_bytes.unwrap_or(0));
    Some(format!(
        "The recording does not say how large the device is: {} of it are accounted for. If it has much more, something \
         outside PyTorch's allocator holds the rest (nvidia-smi shows what).",
        Bytes(known)
    ))
}

fn title(verdict: &Verdict) -> String {
    let (sums, missing) = (&verdict.sums, verdict.missing_bytes());
    let bound = if verdict.missing_at_least_bytes() == missing { "" } else { "up to " };
    let under = match verdict.refusal.cap() {
        None => String::new(),
        Some(Cap { allowed_bytes: Some(allowed), .. }) => {
            format!(" under the limit of {} for this process", Bytes(allowed))
        }
        Some(_) => " under the limit on this process".to_owned(),
    };
    let pools = match sums.private_free_bytes {
        0 => String::new(),
        bytes => format!(" and {} kept by private pools", Bytes(bytes)),
    };
    format!(
        "{} were asked for and {bound}{} are missing{under}, even with every free byte in one piece: {} are live{pools}",
        Bytes(sums.request_bytes),
        Bytes(missing),
        Bytes(sums.active_bytes)
    )
}

/// Lines that hold what is missing.
struct Givers {
    /// Lines that hold enough by themselves, the smallest first, and whether the request would have fitted
    /// without their blocks.
    enough: Vec<(LineBytes, bool)>,
    /// How many of the largest lines hold enough together; `None` when all of them do not.
    fewest: Option<u64>,
}

impl Givers {
    fn of(scene: &Scene<'_>, case: &Case<'_>, missing: u64) -> Self {
        const MOST: usize = 5;
        let groups = case.live_by_group();
        let holding = groups.partition_point(|&(_, bytes)| bytes >= missing);
        let smallest = groups[holding.saturating_sub(MOST)..holding].iter().rev();
        let named = |&(group, bytes): &(u32, u64)| {
            Some((scene.line_of_group(group, bytes)?, case.fits_without(group)))
        };
        let mut sum = 0_u64;
        let together = |&(_, bytes): &(u32, u64)| {
            sum = sum.saturating_add(bytes);
            sum >= missing
        };
        let fewest = groups.iter().position(together).map(|at| at as u64 + 1);
        Self { enough: smallest.filter_map(named).collect(), fewest }
    }

    fn json(&self) -> Value {
        let one = |(line, fits): &(LineBytes, bool)| {
            json!({ "file": line.file, "line": line.line, "function": line.function, "bytes": line.bytes,
                "fits_without_it": fits })
        };
        self.enough.iter().map(one).collect()
    }

    fn said(&self, missing: u64) -> String {
        let smallest = self.enough.iter().find(|(_, fits)| *fits).or(self.enough.first());
        match (smallest, self.fewest) {
            (Some((line, true)), _) => format!(
                "The smallest line that could give the {} is {}, which holds {}; without its blocks the request would \
                 have fitted.",
                Bytes(missing),
                line.label(),
                Bytes(line.bytes)
            ),
            (Some((line, false)), _) => format!(
                "The smallest line that holds the {} is {} ({}).",
                Bytes(missing),
                line.label(),
                Bytes(line.bytes)
            ),
            (None, Some(count)) => {
                format!(
                    "No single line holds the {}; the {} largest do together.",
                    Bytes(missing),
                    Count(count)
                )
            }
            (None, None) => format!("The lines that are known hold less than the {}.", Bytes(missing)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::findings::Severity;
    use crate::findings::scene::samples::found;
    use crate::model::TraceBuilder;

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7f00_0000_0000;

    /// Blocks of three lines that fill a segment.
    fn held() -> TraceBuilder {
        let run = TraceBuilder::new().at("model.py", 1, "weights").segment_alloc(A, 400 * MIB);
        let run = run.alloc(A, 300 * MIB).at("train.py", 7, "logits").alloc(A + 300 * MIB, 70 * MIB);
        run.at("train.py", 9, "mask").alloc(A + 370 * MIB, 30 * MIB).at("train.py", 20, "step")
    }

    #[test]
    fn missing_bytes_and_the_smallest_line_that_could_give_them_are_named() {
        let found = found("capacity", &held().oom(64 * MIB, 10 * MIB).build(), Some(430 * MIB));
        let finding = &found[0];
        assert_eq!((finding.severity, finding.bytes), (Severity::Error, 54 * MIB));
        assert_eq!(finding.evidence["missing_bytes"], 54 * MIB);
        assert_eq!(finding.evidence["missing_is_exact"], true);
        assert_eq!((finding.lines[0].line, finding.lines[0].bytes), (1, 300 * MIB));
        let givers = finding.evidence["lines_that_could_give"].as_array().unwrap();
        assert_eq!((&givers[0]["line"], &givers[1]["line"], givers.len()), (&7.into(), &1.into(), 2));
        assert_eq!(givers[0]["fits_without_it"], true);
        assert_eq!(
            (&finding.evidence["change_way"], &finding.evidence["change_bytes"]),
            (&"hole".into(), &(70 * MIB).into())
        );
        assert!(finding.remedy.contains("train.py:7 logits"), "{}", finding.remedy);
        assert!(!finding.remedy.contains("expandable"), "{}", finding.remedy);
        assert_eq!(finding.evidence["line"], "train.py:20 step");
    }

    #[test]
    fn several_failures_are_one_finding_that_counts_them() {
        let trace = held().oom(64 * MIB, 10 * MIB).oom(65 * MIB, 10 * MIB).oom(66 * MIB, 10 * MIB).build();
        let found = found("capacity", &trace, Some(430 * MIB));
        assert_eq!(found.len(), 1);
        assert_eq!(
            (&found[0].evidence["ooms"], &found[0].evidence["requested_bytes"]),
            (&3.into(), &(66 * MIB).into())
        );
        assert_eq!((&found[0].evidence["first_event"], &found[0].evidence["event"]), (&4.into(), &6.into()));
    }

    #[test]
    fn under_a_limit_that_is_not_known_the_missing_bytes_are_a_bound() {
        let found = found("capacity", &held().oom(64 * MIB, 9000 * MIB).build(), None);
        assert_eq!(found[0].evidence["missing_bytes"], 64 * MIB);
        assert_eq!(found[0].evidence["missing_at_least_bytes"], 1);
        assert_eq!(found[0].evidence["missing_is_exact"], false);
        assert_eq!(found[0].evidence["cap_at_least_bytes"], 400 * MIB);
        assert_eq!(found[0].evidence["cap_below_bytes"], 464 * MIB);
        assert!(found[0].title.contains("up to 64.0 MiB"), "{}", found[0].title);
    }

    #[test]
    fn what_an_unknown_device_may_hide_is_said() {
        let found = found("capacity", &held().oom(64 * MIB, 10 * MIB).build(), None);
        assert!(found[0].remedy.contains("410.0 MiB of it are accounted for"), "{}", found[0].remedy);
    }

    #[test]
    fn enough_in_sum_is_not_capacity() {
        let trace = held().free(A + 300 * MIB, 70 * MIB).oom(75 * MIB, 10 * MIB).build();
        assert!(found("capacity", &trace, Some(430 * MIB)).is_empty());
    }

    #[test]
    fn bytes_that_private_pools_keep_are_pointed_out() {
        let mut trace = held().segment_alloc(A + 1024 * MIB, 200 * MIB).oom(64 * MIB, 10 * MIB).build();
        let pool = trace.pool_index(crate::model::PoolId(0, 3));
        trace.devices[0].events.pools.set(4, pool);
        let found = found("capacity", &trace, Some(620 * MIB));
        assert!(!found[0].remedy.contains("how large the device is"), "{}", found[0].remedy);
        assert_eq!(found[0].evidence["private_pool_free_bytes"], 200 * MIB);
        assert!(found[0].remedy.contains("200.0 MiB are free in private pools"), "{}", found[0].remedy);
    }
}
