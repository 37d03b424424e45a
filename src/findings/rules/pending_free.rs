//! `pending-free`: frees pile up because they wait for other streams.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::findings::reserve::is_share;
use crate::findings::{Check, Finding, Guide, Rule, Scene, Severity, VerdictKind};
use crate::rebuild::NONE;
use crate::tables::{Pending, pending};
use crate::units::{Bytes, Count, percent};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "pending-free",
    heading: "Frees pile up because they wait for other streams",
    guide: Guide {
        says: "Blocks were given back, but another stream may still use them (`Tensor.record_stream`), so they \
               cannot be reused yet. Until then new requests get new memory: the bytes are active, though not \
               allocated, and reserved memory must cover both.",
        fires: "At some moment the blocks that wait (active minus allocated bytes) are at least 1 GiB and at least \
                10 % of the peak of active bytes. The two events of an ordinary free, one right behind the other, \
                are no waiting. It is information where no line has more than two blocks waiting at once, and else a \
                warning.",
        why: "Two buffers in flight are how prefetching is meant to work (FSDP limits itself to two); a pile grows \
              with the number of layers. A tenth of the peak is more than timing explains, and below a GiB the \
              saving would not be worth a change of the code.",
        needs: "`free_requested` and `free_completed` events. A recording that left one of them out cannot show it.",
        is_not: "Not a leak: the blocks become free later, as soon as a later request finds that the other stream is \
                 done. Not fragmentation, though a request may fail for it (`pending-at-oom`). After the pile has \
                 gone, what it took is ordinary cache (`idle-cache`).",
        remedy: "For collectives of `torch.distributed`: set `TORCH_NCCL_AVOID_RECORD_STREAMS=1`, and keep FSDP's \
                 `limit_all_gathers=True`. In code of your own: instead of `record_stream`, keep a reference until \
                 the other stream is done (`event.record()`, then `wait_event` or `synchronize()` before the \
                 reference is dropped), and do not let the CPU run many layers ahead.",
    },
    check: Check::Device(find),
};

/// Less than this is not worth a change of the code.
const LEAST_BYTES: u64 = 1 << 30;
/// Share of the peak of active bytes (in percent).
const LEAST_PERCENT: u64 = 10;
/// So many blocks in flight are double buffering.
const MEANT_IN_FLIGHT: u64 = 2;

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let peak = scene.history.peaks.active.bytes;
    if peak < LEAST_BYTES {
        return Ok(Vec::new());
    }
    let found = pending(scene.history, LEAST_BYTES);
    let is_much = |found: &Pending| {
        found.bytes >= LEAST_BYTES
            && is_share(found.bytes, peak, LEAST_PERCENT)
            && !is_told_by_oom(scene, found)
    };
    Ok(found.filter(is_much).map(|found| told(scene, &found)).into_iter().collect())
}

/// One block is no pile: where it is the one that a request failed for, `pending-at-oom` says all there is.
fn is_told_by_oom(scene: &Scene<'_>, found: &Pending) -> bool {
    found.rows.len() == 1 && scene.ooms.iter().any(|oom| oom.verdict.kind == VerdictKind::PendingAtOom)
}

fn told(scene: &Scene<'_>, found: &Pending) -> Finding {
    let rows = &scene.history.allocations;
    let peaks = &scene.history.peaks;
    let in_flight = most_in_flight(scene, found);
    let severity = if in_flight > MEANT_IN_FLIGHT { Severity::Warning } else { Severity::Info };
    let title = format!(
        "{} in {} block{} were freed but waited for other streams at one time, {} of the peak of active bytes",
        Bytes(found.bytes),
        Count(found.rows.len() as u64),
        if found.rows.len() == 1 { "" } else { "s" },
        percent(found.bytes, peaks.active.bytes)
    );
    let usage = scene.history.usage_at(found.moment);
    let waiting = found.rows.iter().map(|&row| (row as usize, rows.block_bytes[row as usize]));
    let lines = scene.by_line(waiting);
    let of_collectives = found.rows.iter().any(|&row| is_collective(scene, row as usize));
    Finding::new(&RULE, severity, scene.id(), found.bytes, title)
        .lines(lines)
        .evidence("event", found.moment.event())
        .evidence("pending_bytes", found.bytes)
        .evidence("pending_blocks", found.rows.len() as u64)
        .evidence("in_flight_of_one_line", in_flight)
        .evidence("allocated_bytes", usage.allocated_bytes)
        .evidence("active_bytes", usage.active_bytes)
        .evidence("peak_allocated_bytes", peaks.allocated.bytes)
        .evidence("peak_active_bytes", peaks.active.bytes)
        .evidence("pending_at_active_peak_bytes", found.at_active_peak_bytes)
        .evidence("peak_reserved_bytes", peaks.reserved.bytes)
        .remedy(remedy(in_flight, of_collectives))
}

/// The most blocks of one line that wait; of one stack where the line is not known.
fn most_in_flight(scene: &Scene<'_>, found: &Pending) -> u64 {
    let mut counts: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for &row in &found.rows {
        let row = row as usize;
        let group = scene.lines.of_allocation.get(row).copied().unwrap_or(NONE);
        let stack = if group == NONE { scene.history.allocations.stacks[row].0 } else { 0 };
        *counts.entry((group, stack)).or_default() += 1;
    }
    counts.into_values().max().unwrap_or(0)
}

/// Whether the stack of allocation `row` names a collective, by the words that PyTorch and others use.
fn is_collective(scene: &Scene<'_>, row: usize) -> bool {
    const WORDS: [&str; 7] =
        ["all_gather", "allgather", "all_reduce", "allreduce", "reduce_scatter", "broadcast", "unshard"];
    let trace = scene.trace;
    let frames = trace.stacks.get(scene.history.allocations.stacks[row]);
    frames.iter().any(|&id| {
        let frame = trace.frames.get(id);
        let function = trace.strings.get(frame.function);
        let file = trace.strings.get(frame.file);
        file.contains("torch/distributed/") || WORDS.iter().any(|word| function.contains(word))
    })
}

fn remedy(in_flight: u64, of_collectives: bool) -> String {
    let mut said = Vec::new();
    if in_flight <= MEANT_IN_FLIGHT {
        said.push(
            "No line has more than two blocks in flight, as double buffering is meant to have: count them in, or \
             make them smaller.",
        );
    }
    if of_collectives {
        said.push(
            "Set TORCH_NCCL_AVOID_RECORD_STREAMS=1, so that collectives keep their tensors by reference instead of by \
             record_stream; with FSDP keep limit_all_gathers=True.",
        );
    } else {
        said.push(
            "Instead of record_stream, keep a reference until the other stream is done (record an event there and \
             wait for it before the reference is dropped), and do not let the CPU run far ahead of the GPU. For \
             collectives of torch.distributed, TORCH_NCCL_AVOID_RECORD_STREAMS=1 does that.",
        );
    }
    said.join(" ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::findings::scene::samples::found;
    use crate::findings::{Finding, Severity};
    use crate::model::TraceBuilder;

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7000_0000_0000;

    fn at(block: u64) -> u64 {
        A + (block << 36)
    }

    fn pending(builder: TraceBuilder) -> Vec<Finding> {
        found("pending-free", &builder.build(), None)
    }

    /// `live` MiB, then `count` blocks of `mib`, each given back at once; a block completes when the one
    /// `behind` places after it has been given back, the others at the end.
    fn gathers(live: u64, count: u64, mib: u64, behind: u64) -> TraceBuilder {
        let mut builder = TraceBuilder::new().at("model.py", 1, "init");
        builder = builder.segment_alloc(at(99), live * MIB).alloc(at(99), live * MIB);
        builder = builder.at("wrap.py", 7, "broadcast");
        for block in 0..count {
            builder = builder.segment_alloc(at(block), mib * MIB).alloc(at(block), mib * MIB);
            builder = builder.free_requested(at(block), mib * MIB);
            if block >= behind {
                builder = builder.free_completed(at(block - behind), mib * MIB);
            }
        }
        (count.saturating_sub(behind)..count)
            .fold(builder, |builder, block| builder.free_completed(at(block), mib * MIB))
    }

    #[test]
    fn a_pile_of_broadcasts_waits() {
        let found = pending(gathers(16 * 1024, 10, 512, 10));
        assert_eq!(found.len(), 1);
        let finding = &found[0];
        assert_eq!((finding.severity, finding.bytes), (Severity::Warning, 5120 * MIB));
        assert_eq!(
            (finding.lines[0].label(), finding.lines[0].bytes),
            ("wrap.py:7 broadcast".into(), 5120 * MIB)
        );
        let evidence = &finding.evidence;
        assert_eq!(evidence["peak_allocated_bytes"], 16_896 * MIB);
        assert_eq!(evidence["peak_active_bytes"], 21_504 * MIB);
        assert_eq!(evidence["pending_at_active_peak_bytes"], 4608 * MIB);
        assert_eq!(
            (&evidence["in_flight_of_one_line"], &evidence["allocated_bytes"]),
            (&10.into(), &(16_384 * MIB).into())
        );
        assert!(finding.remedy.contains("TORCH_NCCL_AVOID_RECORD_STREAMS"));
    }

    #[test]
    fn two_in_flight_are_as_meant() {
        let limited = &pending(gathers(1024, 20, 1800, 2))[0];
        // The third is requested before the first completes.
        assert_eq!((limited.severity, limited.bytes), (Severity::Warning, 3 * 1800 * MIB));
        let limited = &pending(gathers(1024, 20, 1800, 1))[0];
        assert_eq!((limited.severity, limited.bytes), (Severity::Info, 2 * 1800 * MIB));
        let unlimited = &pending(gathers(1024, 20, 1800, 20))[0];
        assert_eq!((unlimited.severity, unlimited.bytes), (Severity::Warning, 20 * 1800 * MIB));
    }

    #[test]
    fn one_block_that_a_request_failed_for_is_told_by_that_rule() {
        let builder = TraceBuilder::new().segment_alloc(at(1), 70 << 30).alloc(at(1), 70 << 30).stream(7);
        let waits =
            builder.segment_alloc(at(9), 8 << 30).alloc(at(9), 8 << 30).free_requested(at(9), 8 << 30);
        assert!(pending(waits.clone().oom(8 << 30, 1 << 30).free_completed(at(9), 8 << 30)).is_empty());
        let later = waits.segment_alloc(at(2), 2 << 20).free_completed(at(9), 8 << 30);
        assert_eq!(pending(later).len(), 1, "nothing failed");
    }

    #[test]
    fn ordinary_frees_small_piles_and_small_shares_do_not_wait() {
        assert!(pending(gathers(1024, 20, 1800, 0)).is_empty(), "complete at once");
        assert!(pending(gathers(100, 10, 100, 10)).is_empty(), "1,000 MiB");
        assert!(pending(gathers(64 * 1024, 10, 512, 10)).is_empty(), "7 %");
    }
}
