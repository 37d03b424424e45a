//! `huge-request`: one request is larger than the device.

use crate::error::Result;
use crate::findings::oom::Case;
use crate::findings::{Check, Finding, Guide, Rule, Scene, Severity, VerdictKind};
use crate::units::Bytes;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "huge-request",
    heading: "One request is larger than the device",
    guide: Guide {
        says: "A single request is larger than all the memory of the device, or than all that this process may have. \
            Nothing that is freed, and no setting, can ever make it fit.",
        fires: "On an `oom` event whose request is larger than the device's memory, or than the limit on the process \
            where that is known. Where the recording does not say how large the device is: when the request is larger \
            than everything that was free on the device and everything that this process held, together (2 GiB or more), \
            or is 1 PiB and more.",
        why: "It is plain arithmetic. Snapshots do not hold the size of the device, memlab's own recordings do; without \
            it, the sum of what was free and what was held is what this process could have had at most at that moment.",
        needs: "An `oom` event; the size of the device for the exact comparison.",
        is_not: "It is not a full device: little may be live. Where the size of the device is not known, other processes \
            may hold most of it; the finding says so.",
        remedy: "Look at the shape of the tensor at the line that asked: a broadcast of two large dimensions, a missing \
            index, an attention matrix over a whole corpus, a unit mistaken. Work in chunks where the size is meant.",
    },
    check: Check::Device(find),
};

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let case = Case::last(scene, |verdict| verdict.kind == VerdictKind::HugeRequest);
    Ok(case.map(|case| told(scene, &case)).into_iter().collect())
}

fn told(scene: &Scene<'_>, case: &Case<'_>) -> Finding {
    let verdict = case.verdict();
    let sums = &verdict.sums;
    let request = Bytes(sums.request_bytes);
    let allowed = verdict.refusal.cap().and_then(|cap| cap.allowed_bytes);
    let all = sums.reserved_bytes.saturating_add(sums.device_free_bytes.unwrap_or(0));
    let (title, most) = match (allowed, verdict.total_bytes) {
        (Some(allowed), _) => (
            format!("{request} were asked for at once; this process may have {} in all", Bytes(allowed)),
            allowed,
        ),
        (None, Some(total)) => {
            (format!("{request} were asked for at once; the device has {} in all", Bytes(total)), total)
        }
        (None, None) => (
            format!(
                "{request} were asked for at once; what was free on the device and what this process held are {} \
                 together",
                Bytes(all)
            ),
            all,
        ),
    };
    let finding = case
        .finding(&RULE, Severity::Error, sums.request_bytes, title)
        .evidence("most_bytes", most)
        .evidence("beyond_bytes", sums.request_bytes.saturating_sub(most));
    let asking = scene.line_of_stack(case.judged.oom.stack, sums.request_bytes);
    let place = asking.as_ref().map_or_else(
        || "the line that asked (its stack is not recorded)".to_owned(),
        crate::findings::LineBytes::label,
    );
    let mut remedy = vec![format!(
        "No setting and no freeing can help. Look at the shape of the tensor that {place} makes: a broadcast of two \
         large dimensions or a missing index is the usual reason; where the size is meant, work in chunks."
    )];
    if verdict.total_bytes.is_none() && allowed.is_none() {
        remedy.push(
            "The size of the device is not recorded: should other processes hold most of it (nvidia-smi shows them), \
             the request might fit without them."
                .to_owned(),
        );
    }
    finding.lines(asking.into_iter().collect()).remedy(remedy.join(" "))
}

#[cfg(test)]
mod tests {
    use crate::findings::Severity;
    use crate::findings::scene::samples::found;
    use crate::model::TraceBuilder;

    const GIB: u64 = 1 << 30;
    const A: u64 = 0x7f00_0000_0000;

    fn asks(gib: u64, free: u64) -> crate::model::Trace {
        let run = TraceBuilder::new().at("a.py", 1, "weights").segment_alloc(A, 4 * GIB).alloc(A, 4 * GIB);
        run.at("b.py", 2, "outer").oom(gib * GIB, free * GIB).build()
    }

    #[test]
    fn more_than_the_device_is_huge_and_its_line_is_named() {
        let found = found("huge-request", &asks(200, 130), Some(140 * GIB));
        let finding = &found[0];
        assert_eq!((finding.severity, finding.bytes), (Severity::Error, 200 * GIB));
        assert_eq!((finding.lines[0].file.as_str(), finding.lines[0].bytes), ("b.py", 200 * GIB));
        assert_eq!(finding.evidence["beyond_bytes"], 60 * GIB);
        assert!(finding.remedy.contains("b.py:2 outer"), "{}", finding.remedy);
    }

    #[test]
    fn without_the_device_all_that_could_be_had_decides() {
        assert!(found("huge-request", &asks(200, 130), None)[0].remedy.contains("nvidia-smi"));
        assert!(found("huge-request", &asks(133, 130), None).is_empty());
        assert!(found("huge-request", &asks(135, 130), Some(140 * GIB)).is_empty());
    }

    #[test]
    fn more_than_the_limit_is_huge() {
        let mut trace = asks(30, 130);
        trace.process.other.insert("memory_fraction".to_owned(), 0.2.into());
        assert_eq!(found("huge-request", &trace, Some(140 * GIB))[0].evidence["most_bytes"], 28 * GIB);
        assert_eq!(found("memory-cap", &trace, Some(140 * GIB)).len(), 1);
    }
}
