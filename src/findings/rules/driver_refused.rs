//! `driver-refused`: the driver refused though it had room.

use crate::error::Result;
use crate::findings::oom::Case;
use crate::findings::{Check, Finding, Guide, Rule, Scene, Severity, VerdictKind};
use crate::units::Bytes;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "driver-refused",
    heading: "The driver refused though it had room",
    guide: Guide {
        says: "The driver had more free memory than the request needed, and still refused. No limit on the process is \
            known that would explain it, and nothing that PyTorch's allocator did does.",
        fires: "On an `oom` event where the device's free bytes are enough for the segment that the request needed, and \
            no limit explains the refusal: the stated fraction would have allowed it, the size of the device is recorded \
            and no fraction is, or this process had held as much before.",
        why: "PyTorch reads the free bytes just after the refusal. If they were enough, the shortage was elsewhere or \
            over already: the commit limit of the host (Windows, WDDM), address space, a virtual GPU's quota, or another \
            process that held the memory for a moment.",
        needs: "An `oom` event with the device's free bytes.",
        is_not: "It is never fragmentation of PyTorch's memory, whatever the tip in the error text says: a new segment \
            needs no hole. A limit set by a call (`set_per_process_memory_fraction`) that the recording does not show \
            looks the same.",
        remedy: "Check the host: page file and commit limit on Windows, container and vGPU limits, other processes on the \
            device, the driver's log. If the program sets a memory fraction, that is the reason instead.",
    },
    check: Check::Device(find),
};

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let case = Case::last(scene, |verdict| verdict.kind == VerdictKind::DriverRefused);
    Ok(case.map(|case| told(&case)).into_iter().collect())
}

fn told(case: &Case<'_>) -> Finding {
    let sums = &case.verdict().sums;
    let (free, segment) = (sums.device_free_bytes.unwrap_or(0), sums.segment_bytes);
    let title = format!(
        "The driver refused {} although {} were free, and no known limit on this process explains it",
        Bytes(segment),
        Bytes(free)
    );
    let finding = case
        .finding(&RULE, Severity::Error, segment, title)
        .evidence("free_beyond_request_bytes", free.saturating_sub(segment));
    finding.remedy(
        "This is not fragmentation, and no allocator setting helps. Look outside PyTorch: the commit limit or page file \
         (Windows), container and vGPU quotas, other processes that took the memory for a moment, the driver's log. If \
         the program calls set_per_process_memory_fraction, which leaves no mark in a snapshot, that limit is the reason.",
    )
}

#[cfg(test)]
mod tests {
    use crate::findings::Severity;
    use crate::findings::scene::samples::found;
    use crate::model::TraceBuilder;

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7f00_0000_0000;

    /// The posted case: 960 MiB asked with 15.5 GiB free of 24 GiB, 6.8 GiB live, 76 MiB slack.
    fn posted() -> TraceBuilder {
        let run = TraceBuilder::new().at("a.py", 1, "f").segment_alloc(A, 7020 * MIB).alloc(A, 6944 * MIB);
        run.oom(960 * MIB, 15_892 * MIB)
    }

    #[test]
    fn free_memory_of_a_known_device_without_a_limit_points_at_the_driver() {
        let found = found("driver-refused", &posted().build(), Some(24_566 * MIB));
        assert_eq!((found[0].severity, found[0].bytes), (Severity::Error, 960 * MIB));
        assert_eq!(found[0].evidence["free_beyond_request_bytes"], (15_892 - 960) * MIB);
        assert!(!found[0].remedy.contains("expandable"), "{}", found[0].remedy);
    }

    #[test]
    fn it_is_never_called_fragmentation() {
        // Slack in pieces would do, but a new segment needs none of it.
        let mut run = TraceBuilder::new();
        for index in 0..10 {
            let at = A + index * 200 * MIB;
            run = run
                .segment_alloc(at, 100 * MIB)
                .alloc(at, 60 * MIB)
                .alloc(at + 60 * MIB, 40 * MIB)
                .free(at, 60 * MIB);
        }
        let trace = run.oom(200 * MIB, 9000 * MIB).build();
        assert!(found("fragmentation", &trace, Some(24_566 * MIB)).is_empty());
        assert_eq!(found("driver-refused", &trace, Some(24_566 * MIB)).len(), 1);
    }

    #[test]
    fn a_process_that_held_more_before_is_under_no_constant_limit() {
        let held = TraceBuilder::new().segment_alloc(A, 400 * MIB).alloc(A, 400 * MIB);
        let shrunk =
            held.clone().segment_alloc(A + (1 << 30), 200 * MIB).segment_free(A + (1 << 30), 200 * MIB);
        assert_eq!(found("driver-refused", &shrunk.oom(64 * MIB, 900 * MIB).build(), None).len(), 1);
        let capped = held.oom(64 * MIB, 900 * MIB).build();
        assert!(found("driver-refused", &capped, None).is_empty());
        assert_eq!(found("memory-cap", &capped, None).len(), 1);
    }

    #[test]
    fn a_full_device_is_not_the_drivers_whim() {
        let full = TraceBuilder::new()
            .segment_alloc(A, 400 * MIB)
            .alloc(A, 400 * MIB)
            .oom(64 * MIB, 63 * MIB)
            .build();
        assert!(found("driver-refused", &full, Some(480 * MIB)).is_empty());
    }
}
