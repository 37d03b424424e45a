//! `outside-allocator`: much of the device is held outside the allocator.

use crate::error::Result;
use crate::findings::oom::Case;
use crate::findings::outside_holders::OutsideHolders;
use crate::findings::{Check, Finding, Guide, Outside, Rule, Scene, Severity, VerdictKind};
use crate::model::NO_TIME;
use crate::units::{Bytes, percent};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "outside-allocator",
    heading: "Much of the device is held outside the allocator",
    guide: Guide {
        says: "A large part of the device's memory is neither free nor held by PyTorch's allocator in this process. The \
            finding splits it into what a context and its libraries usually take (up to 1 GiB) and the rest, which \
            nothing in the recording explains. This is why nvidia-smi shows more than PyTorch.",
        fires: "When `total - free - reserved` of the device is at least 1 GiB and at least 5 % of the device: at an \
            `oom` event, or at any moment at which memlab's recorder asked the driver. It is a warning; it is an error, \
            and the verdict on the failure, where at least 2 GiB are outside and the request would have fitted without \
            what is beyond the first of them.",
        why: "A CUDA context with cuBLAS and cuDNN loaded took 0.7 GiB on the machine where it was measured; 1 GiB is what \
            one process needs in ordinary cases, so less is never worth a word. 5 % keeps the rule quiet on large \
            devices, where several libraries together take more than 1 GiB without harm. What is usual is a rough \
            figure, so a failure is laid at its door only where as much again is outside.",
        needs: "The size of the device and its free bytes at one moment: memlab's recorder notes both; a plain snapshot \
            has the free bytes in its `oom` events, but not the size. Where driver calls were recorded too (`memlab run \
            --driver`), the finding names who holds the bytes, and from which lines.",
        is_not: "It is not PyTorch's cache: that is inside `reserved`. Without driver calls it cannot tell other processes from \
            libraries of this one; nvidia-smi can.",
        remedy: "Look at nvidia-smi for other processes (workers that opened a context on this device, a notebook left \
            open). Within the process: each NCCL communicator takes about 1 GB, so share process groups and meshes; \
            CUDA graph executables, custom kernels' buffers and libraries with pools of their own (cuPy, RMM, \
            TensorRT) count here too.",
    },
    check: Check::Device(find),
};

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let decided = Case::last(scene, |verdict| verdict.kind == VerdictKind::OutsideAllocator);
    let case = decided
        .or_else(|| Case::last(scene, |verdict| verdict.outside.is_some_and(|outside| outside.is_much)));
    let found = match case {
        Some(case) => at_oom(scene, &case),
        None => as_sampled(scene),
    };
    Ok(found.into_iter().collect())
}

fn at_oom(scene: &Scene<'_>, case: &Case<'_>) -> Option<Finding> {
    let verdict = case.verdict();
    let outside = verdict.outside?;
    let is_reason = verdict.kind == VerdictKind::OutsideAllocator;
    let severity = if is_reason { Severity::Error } else { Severity::Warning };
    let title = title(outside, verdict.total_bytes?);
    let missing = verdict.missing_bytes();
    let finding = case.finding(&RULE, severity, outside.bytes, title).evidence("missing_bytes", missing);
    let holders = holders_at_failure(scene, case);
    let reason = if is_reason {
        format!(
            "Without the {} beyond the usual, the {} that were asked for would have fitted. ",
            Bytes(outside.unexplained_bytes),
            Bytes(verdict.sums.request_bytes)
        )
    } else {
        String::new()
    };
    let finding = finding.remedy(format!("{reason}{}", remedy(holders.as_ref())));
    Some(with_holders(finding, holders))
}

fn holders_at_failure(scene: &Scene<'_>, case: &Case<'_>) -> Option<OutsideHolders> {
    let event = usize::try_from(case.judged.oom.event).ok()?;
    let time_us = scene.device.events.times_us.get(event).copied().filter(|&time| time != NO_TIME)?;
    OutsideHolders::at(scene.trace, scene.id(), time_us)
}

/// Names who holds the bytes, where driver calls say it.
fn with_holders(mut finding: Finding, holders: Option<OutsideHolders>) -> Finding {
    let Some(holders) = holders.filter(|holders| !holders.holders.is_empty()) else { return finding };
    finding.title = format!("{}: {}", finding.title, holders.named());
    let evidence = holders.evidence();
    finding
        .evidence("held_by_calls_bytes", holders.bytes())
        .evidence("holders", evidence)
        .lines(holders.lines)
}

fn remedy(holders: Option<&OutsideHolders>) -> String {
    let Some(holders) = holders.filter(|holders| !holders.holders.is_empty()) else {
        return REMEDY.to_owned();
    };
    let note = holders.note.map(|note| format!(" ({note})")).unwrap_or_default();
    format!(
        "Driver calls of this process hold {} of it outside the allocator: {}{note}. The rest is the context, other processes, \
         and what the driver takes by itself; nvidia-smi lists processes.",
        Bytes(holders.bytes()),
        holders.named()
    )
}

/// From what the driver said while the recording ran, where no failure shows it.
fn as_sampled(scene: &Scene<'_>) -> Option<Finding> {
    let seen = scene.readings?.outside.as_ref()?;
    let (most, end) = (seen.max, seen.end);
    let outside = Outside::of(most.total_bytes, most.free_bytes, most.reserved_bytes);
    if !outside.is_much {
        return None;
    }
    let title = title(outside, most.total_bytes);
    let finding = Finding::new(&RULE, Severity::Warning, scene.id(), outside.bytes, title)
        .evidence("event", most.moment.and_then(crate::rebuild::Moment::event))
        .evidence("device_total_bytes", most.total_bytes)
        .evidence("device_free_bytes", most.free_bytes)
        .evidence("reserved_bytes", most.reserved_bytes)
        .evidence("outside_bytes", outside.bytes)
        .evidence("outside_expected_bytes", outside.expected_bytes)
        .evidence("outside_unexplained_bytes", outside.unexplained_bytes)
        .evidence("outside_at_first_bytes", seen.series.first().map(|point| point.bytes))
        .evidence("outside_at_end_bytes", end.bytes);
    let holders = OutsideHolders::at(scene.trace, scene.id(), most.time_us);
    let finding = finding.remedy(remedy(holders.as_ref()));
    Some(with_holders(finding, holders))
}

fn title(outside: Outside, total: u64) -> String {
    format!(
        "{} of the device ({}) are held outside PyTorch's allocator, {} more than a context and its libraries usually take",
        Bytes(outside.bytes),
        percent(outside.bytes, total),
        Bytes(outside.unexplained_bytes)
    )
}

const REMEDY: &str = "Nothing in PyTorch's allocator can give these bytes back. Look at nvidia-smi for other processes on \
    this device; within this one, count process groups (each NCCL communicator takes about 1 GB: share them), CUDA \
    graphs, and libraries with memory pools of their own. `memlab run --driver` records who holds it.";

#[cfg(test)]
mod tests {
    use crate::driver::samples::Calls;
    use crate::findings::Severity;
    use crate::findings::scene::samples::found;
    use crate::model::{DriverCall, DriverLayer, NativeFrame, NativeModule, Sample, Trace, TraceBuilder};

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    const A: u64 = 0x7f00_0000_0000;

    /// `reserved` MiB in segments of 1 GiB, of which each has `live` MiB in it.
    fn held(reserved: u64, live: u64) -> TraceBuilder {
        let mut run = TraceBuilder::new().at("a.py", 1, "f");
        for index in 0..reserved / 1024 {
            let at = A + index * 2 * GIB;
            run = run.segment_alloc(at, GIB).alloc(at, live * MIB);
        }
        run
    }

    #[test]
    fn process_groups_that_take_the_rest_are_the_reason() {
        // 82 GiB reserved, 60 active, 0.1 free of 96.1: 14 GiB are somewhere else.
        let (total, free) = (96 * GIB + 102 * MIB, 102 * MIB);
        let run = held(82 * 1024, 749);
        let found_at =
            |ask: u64| found("outside-allocator", &run.clone().oom(ask, free).build(), Some(total));
        let reason = &found_at(30 * GIB)[0];
        assert_eq!((reason.severity, reason.bytes), (Severity::Error, 14 * GIB));
        assert_eq!(reason.evidence["outside_expected_bytes"], GIB);
        assert_eq!(reason.evidence["outside_unexplained_bytes"], 13 * GIB);
        // In pieces there was enough: the rule still tells what is outside, but does not blame it.
        assert_eq!(found_at(10 * GIB)[0].severity, Severity::Warning);
        assert_eq!(found("fragmentation", &run.oom(10 * GIB, free).build(), Some(total)).len(), 1);
    }

    #[test]
    fn little_reserved_and_much_gone_is_outside() {
        let run = TraceBuilder::new().segment_alloc(A, 318 * MIB).alloc(A, 300 * MIB);
        let (total, free) = (40 * GIB, 31 * GIB + 410 * MIB);
        let found = found("outside-allocator", &run.oom(36 * GIB, free).build(), Some(total));
        assert_eq!((found[0].severity, found[0].bytes), (Severity::Error, 40 * GIB - free - 318 * MIB));
    }

    #[test]
    fn a_context_and_its_libraries_are_not_worth_a_word() {
        let run = held(10 * 1024, 1024);
        let quiet = |total: u64, free: u64| {
            found("outside-allocator", &run.clone().oom(GIB, free).build(), Some(total))
        };
        assert!(quiet(11 * GIB, 100 * MIB).is_empty());
        assert!(quiet(80 * GIB, 67 * GIB).is_empty());
        assert_eq!(quiet(80 * GIB, 66 * GIB).len(), 1);
        assert!(found("outside-allocator", &run.oom(GIB, 0).build(), None).is_empty());
    }

    fn sampled(free: &[u64]) -> Trace {
        let mut trace = held(4 * 1024, 1024).build();
        let sample = |(index, &free): (usize, &u64)| Sample {
            time_us: 1_000_000 + 10 * index as i64,
            events: Some(8),
            free_bytes: Some(free),
            total_bytes: Some(80 * GIB),
            ..Sample::default()
        };
        trace.samples = free.iter().enumerate().map(sample).collect();
        trace
    }

    #[test]
    fn what_the_driver_said_on_the_way_is_enough_without_a_failure() {
        let found = found("outside-allocator", &sampled(&[75 * GIB, 60 * GIB, 70 * GIB]), None);
        assert_eq!((found[0].severity, found[0].bytes), (Severity::Warning, 16 * GIB));
        assert_eq!(found[0].evidence["outside_at_first_bytes"], GIB);
        assert_eq!(found[0].evidence["outside_at_end_bytes"], 6 * GIB);
    }

    #[test]
    fn driver_calls_name_who_holds_the_gap() {
        let mut trace = held(4 * 1024, 1024).oom(76 * GIB, 61 * GIB).build();
        let calls = Calls::default()
            .at(A)
            .take(DriverCall::DeviceAlloc, GIB)
            .at(1 << 45)
            .stack(1)
            .take(DriverCall::DeviceAlloc, 12 * GIB)
            .at(1 << 46)
            .stack(1)
            .take(DriverCall::DeviceAlloc, GIB);
        let mut layer = DriverLayer { rows: calls.rows, ..DriverLayer::default() };
        let module =
            NativeModule { path: "/v/nvidia/nccl/lib/libnccl.so.2".to_owned(), ..NativeModule::default() };
        let module = layer.native.push_module(module);
        let frame = layer.native.push_frame(NativeFrame { module, offset: 1 });
        layer.native.push_stack([frame]);
        trace.driver = Some(Box::new(layer));
        let found = &found("outside-allocator", &trace, Some(80 * GIB))[0];
        assert!(found.title.ends_with(": NCCL 13.0 GiB"), "{}", found.title);
        assert_eq!(found.evidence["held_by_calls_bytes"], 13 * GIB);
        assert_eq!(found.evidence["holders"][0]["holder"], "NCCL");
        assert!(found.remedy.contains("share process groups"), "{}", found.remedy);
        assert_eq!((found.lines[0].file.as_str(), found.lines[0].bytes), ("libnccl.so.2", 13 * GIB));
    }

    #[test]
    fn small_readings_are_quiet() {
        assert!(found("outside-allocator", &sampled(&[75 * GIB, 74 * GIB, 73 * GIB]), None).is_empty());
    }
}
