//! `memory-cap`: a limit on the process refused.

use crate::error::Result;
use crate::findings::oom::Case;
use crate::findings::{Cap, Check, Finding, Guide, Rule, Scene, Severity, VerdictKind};
use crate::units::Bytes;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "memory-cap",
    heading: "A limit on the process refused",
    guide: Guide {
        says: "The device had enough free memory for the request, but this process may not take it: it is limited to a \
            part of the device. The finding says what the limit is, or between which figures it must lie, and by how \
            much it would have had to be higher. Whether what is under the limit is too much or in pieces is said by \
            `capacity`, `near-capacity` or `fragmentation` beside it.",
        fires: "On an `oom` event where the device's free bytes are enough for the segment that the request needed, and \
            either a stated limit explains the refusal (`reserved + segment` is more than the stated fraction of the \
            device), or no limit is stated, the size of the device is not recorded, and this process never held as much \
            as it was refused then.",
        why: "PyTorch's allocator tests its limit before it asks the driver, so a failure with ample free memory is the \
            mark of a limit. A fraction that was set by a call leaves no other mark in a snapshot. A process that had \
            held more before cannot have been under a constant limit: then it is `driver-refused`.",
        needs: "An `oom` event with the device's free bytes. For the exact limit: memlab's own recording, or \
            `per_process_memory_fraction` in the configuration.",
        is_not: "It is not a full device, and not by itself a fault: limits are set on purpose, to share a device or to \
            test. Without a stated limit, a driver that refuses for reasons of its own looks the same.",
        remedy: "If the limit is not meant, remove it or raise it by what the finding says \
            (`torch.cuda.set_per_process_memory_fraction`, or `per_process_memory_fraction` in the configuration). If it \
            is meant, the finding beside this one says what to free.",
    },
    check: Check::Device(find),
};

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let case = Case::last(scene, |verdict| verdict.refusal.cap().is_some());
    Ok(case.and_then(|case| Some(told(&case, case.verdict().refusal.cap()?))).into_iter().collect())
}

fn told(case: &Case<'_>, cap: Cap) -> Finding {
    let verdict = case.verdict();
    let sums = &verdict.sums;
    let (free, segment) = (Bytes(sums.device_free_bytes.unwrap_or(0)), Bytes(sums.segment_bytes));
    let needed = sums.reserved_bytes.saturating_add(sums.segment_bytes);
    let short = needed.saturating_sub(cap.at_least_bytes);
    let title = match cap.allowed_bytes {
        Some(allowed) => format!(
            "The limit of {} for this process refused {segment}, though the device had {free} left",
            Bytes(allowed)
        ),
        None => format!(
            "{segment} were refused though the device had {free} left: this process, which held {}, is limited to a part \
             of it",
            Bytes(sums.reserved_bytes)
        ),
    };
    let mut finding = case
        .finding(&RULE, Severity::Warning, short, title)
        .evidence("cap_is_stated", cap.fraction.is_some())
        .evidence("cap_short_bytes", short)
        .evidence("cause", verdict.cause.name());
    if let Some(fraction) = cap.fraction {
        finding = finding.evidence("fraction", fraction);
    }
    finding.remedy(remedy(cap, verdict.cause, short))
}

fn remedy(cap: Cap, cause: VerdictKind, short: u64) -> String {
    let raise = match cap.allowed_bytes {
        Some(_) => format!("If the limit is not meant, raise it by {} or remove it", Bytes(short)),
        None => {
            format!("If a limit is set and not meant, raise it (by {} at most) or remove it", Bytes(short))
        }
    };
    let unsure = if cap.fraction.is_some() {
        ""
    } else {
        " If none is set, the driver refused for another reason: look at its log, and for other processes that took the \
         memory for a moment."
    };
    let why = match cause {
        VerdictKind::Fragmentation => "what is free under it is in pieces",
        VerdictKind::NearCapacity => "what is live nearly fills it",
        VerdictKind::HugeRequest => "the request alone is larger",
        VerdictKind::PendingAtOom => "freed blocks still waited for another stream",
        _ => "what is live is too much for it",
    };
    format!(
        "{raise} (`torch.cuda.set_per_process_memory_fraction`, `per_process_memory_fraction` in the configuration); if \
         it is meant, {why}: see the finding `{}`.{unsure}",
        cause.name()
    )
}

#[cfg(test)]
mod tests {
    use crate::findings::Severity;
    use crate::findings::scene::samples::found;
    use crate::model::{SettingValue, Trace, TraceBuilder};

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7f00_0000_0000;

    fn held() -> TraceBuilder {
        TraceBuilder::new().at("train.py", 1, "step").segment_alloc(A, 400 * MIB).alloc(A, 400 * MIB)
    }

    fn stated(fraction: f64) -> Trace {
        let mut trace = held().oom(64 * MIB, 9000 * MIB).build();
        trace.process.other.insert("memory_fraction".to_owned(), fraction.into());
        trace
    }

    #[test]
    fn a_limit_that_nobody_states_is_bounded() {
        let found = found("memory-cap", &held().oom(64 * MIB, 9000 * MIB).build(), None);
        let finding = &found[0];
        assert_eq!((finding.severity, finding.bytes), (Severity::Warning, 64 * MIB));
        assert_eq!(finding.evidence["cap_is_stated"], false);
        assert_eq!(finding.evidence["cap_at_least_bytes"], 400 * MIB);
        assert_eq!(finding.evidence["cap_below_bytes"], 464 * MIB);
        assert_eq!(finding.evidence["cause"], "capacity");
        assert!(finding.remedy.contains("If none is set"), "{}", finding.remedy);
    }

    #[test]
    fn a_stated_limit_is_exact() {
        let found = found("memory-cap", &stated(0.044), Some(10_000 * MIB));
        let finding = &found[0];
        assert_eq!(
            (&finding.evidence["cap_bytes"], &finding.evidence["cap_short_bytes"]),
            (&(440 * MIB).into(), &(24 * MIB).into())
        );
        assert!(!finding.remedy.contains("If none is set"), "{}", finding.remedy);
    }

    #[test]
    fn a_limit_in_the_configuration_counts() {
        let conf = SettingValue::Text("per_process_memory_fraction:0.05".to_owned());
        let trace = held().setting("PYTORCH_CUDA_ALLOC_CONF", conf).oom(64 * MIB, 9000 * MIB).build();
        assert_eq!(found("memory-cap", &trace, None)[0].evidence["fraction"], 0.05);
    }

    #[test]
    fn a_full_device_or_a_limit_that_allows_it_is_none() {
        let full = held().oom(64 * MIB, 10 * MIB).build();
        assert!(found("memory-cap", &full, Some(500 * MIB)).is_empty());
        assert!(found("memory-cap", &stated(0.5), Some(10_000 * MIB)).is_empty());
        assert_eq!(found("driver-refused", &stated(0.5), Some(10_000 * MIB)).len(), 1);
    }
}
