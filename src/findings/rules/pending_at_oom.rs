//! `pending-at-oom`: a block that would have fitted was waiting.

use crate::error::Result;
use crate::findings::oom::Case;
use crate::findings::{Check, Finding, Guide, Rule, Scene, Severity, VerdictKind};
use crate::model::BlockState;
use crate::units::Bytes;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "pending-at-oom",
    heading: "A block that would have fitted was waiting",
    guide: Guide {
        says: "A request failed although memory for it had been given back: the block was still waiting for work on \
            another stream (`record_stream`), or became free while the request was already failing. The same request, \
            made a moment later, is served without any cleaning up.",
        fires: "On an `oom` event where the request fits once every pending free is through: into a piece of its own \
            stream and pool (a pending block together with its free neighbours), or into a new segment after whole \
            segments went back to the driver. Also where a free block that fits is there at the failure and holds a \
            block whose late free completed within the failing call.",
        why: "Until the other stream has passed, such a block is active but not allocated, and cannot be reused. Before \
            it gives up, the allocator waits for all streams and asks the driver once more, but does not search its own \
            free blocks again (PyTorch issue 189504).",
        needs: "`free_requested` and `free_completed` events; a recording that leaves one of them out cannot show it.",
        is_not: "It is not too little memory: counting `allocated` alone, there is room. It is not a leak either: the \
            frees do come through.",
        remedy: "Let the other stream finish first: `torch.cuda.synchronize()` or an event wait before the request, or \
            catch the error and try once more. For collectives, TORCH_NCCL_AVOID_RECORD_STREAMS=1 keeps blocks from \
            waiting; in your own code, end the use on the other stream before the tensor is dropped.",
    },
    check: Check::Device(find),
};

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let case = Case::last(scene, |verdict| verdict.kind == VerdictKind::PendingAtOom);
    Ok(case.map(|case| told(scene, &case)).into_iter().collect())
}

fn told(scene: &Scene<'_>, case: &Case<'_>) -> Finding {
    let sums = &case.verdict().sums;
    let request = Bytes(sums.request_bytes);
    let (bytes, title) = if sums.largest_with_pending_bytes >= sums.request_bytes {
        let bytes = sums.largest_with_pending_bytes;
        let title = format!(
            "{request} were refused while {} on the same stream were freed but waiting for another stream",
            Bytes(bytes)
        );
        (bytes, title)
    } else if sums.freed_too_late_bytes >= sums.request_bytes {
        let bytes = sums.freed_too_late_bytes;
        let title = format!(
            "{request} were refused while {} on the same stream became free: too late to be found",
            Bytes(bytes)
        );
        (bytes, title)
    } else {
        let bytes = sums.released_by_pending_bytes;
        let title = format!(
            "{request} were refused while {} of whole segments were freed but waiting for another stream",
            Bytes(bytes)
        );
        (bytes, title)
    };
    let blocks = case.state.segments.iter().flat_map(|segment| &segment.blocks);
    let pending = blocks.filter(|block| block.state == BlockState::ActivePendingFree);
    let pending: Vec<(usize, u64)> = pending.map(|block| (block.allocation as usize, block.bytes)).collect();
    let blocks = pending.len() as u64;
    let lines = scene.by_line(pending);
    let mut finding = case
        .finding(&RULE, Severity::Error, bytes, title)
        .evidence("pending_free_blocks", blocks)
        .evidence("largest_with_pending_bytes", sums.largest_with_pending_bytes)
        .evidence("released_by_pending_bytes", sums.released_by_pending_bytes)
        .evidence("freed_too_late_bytes", sums.freed_too_late_bytes);
    if !lines.is_empty() {
        finding = finding.lines(lines);
    }
    finding.remedy(
        "Let the other stream finish before this request (torch.cuda.synchronize() or an event wait), or catch the error \
         and try once more: the same request then fits without any cleaning up. Blocks wait because of record_stream; \
         for collectives, TORCH_NCCL_AVOID_RECORD_STREAMS=1 avoids it.",
    )
}

#[cfg(test)]
mod tests {
    use crate::findings::Severity;
    use crate::findings::scene::samples::found;
    use crate::model::TraceBuilder;

    const GIB: u64 = 1 << 30;
    const A: u64 = 0x7f00_0000_0000;
    const B: u64 = A + 1024 * GIB;

    /// 70 GiB live on the default stream; blocks of 4 GiB on stream 7, in segments of `each` blocks.
    fn on_stream(each: u64, segments: u64) -> TraceBuilder {
        let mut run =
            TraceBuilder::new().at("model.py", 1, "weights").segment_alloc(A, 70 * GIB).alloc(A, 70 * GIB);
        run = run.stream(7).at("copy.py", 3, "stage");
        for segment in 0..segments {
            let at = B + segment * 64 * GIB;
            run = run.segment_alloc(at, each * 4 * GIB);
            for block in 0..each {
                run = run.alloc(at + block * 4 * GIB, 4 * GIB);
            }
        }
        run
    }

    #[test]
    fn a_pending_block_of_the_same_stream_explains_the_failure() {
        let trace = on_stream(1, 2).free_requested(B, 4 * GIB).oom(4 * GIB, GIB).build();
        let found = found("pending-at-oom", &trace, Some(80 * GIB));
        assert_eq!((found[0].severity, found[0].bytes), (Severity::Error, 4 * GIB));
        assert_eq!((found[0].lines[0].file.as_str(), found[0].lines[0].bytes), ("copy.py", 4 * GIB));
        assert_eq!(found[0].evidence["pending_free_blocks"], 1);
    }

    #[test]
    fn neighbours_merge_once_they_are_through() {
        let run = on_stream(3, 1).free(B, 4 * GIB).free_requested(B + 4 * GIB, 4 * GIB);
        let trace = run.oom(8 * GIB, GIB).build();
        assert_eq!(found("pending-at-oom", &trace, Some(84 * GIB))[0].bytes, 8 * GIB);
    }

    #[test]
    fn whole_segments_that_come_back_make_room_on_another_stream() {
        let run = on_stream(1, 2).free_requested(B, 4 * GIB).free_requested(B + 64 * GIB, 4 * GIB);
        let found = found("pending-at-oom", &run.stream(0).oom(9 * GIB, GIB).build(), Some(80 * GIB));
        assert_eq!(
            (found[0].bytes, &found[0].evidence["released_by_pending_bytes"]),
            (8 * GIB, &(8 * GIB).into())
        );
    }

    #[test]
    fn a_block_that_came_free_within_the_failing_call_is_recognised() {
        // Not the whole segment: it stays in the pool instead of going back to the driver.
        let run = on_stream(2, 1).free_requested(B, 4 * GIB).at("train.py", 9, "step");
        let trace = run.free_completed(B, 4 * GIB).oom(4 * GIB, GIB).build();
        let found = found("pending-at-oom", &trace, Some(80 * GIB));
        assert_eq!(found[0].evidence["freed_too_late_bytes"], 4 * GIB);
    }

    #[test]
    fn too_small_or_elsewhere_is_not_the_reason() {
        let small = on_stream(2, 1).free_requested(B, 4 * GIB).oom(6 * GIB, GIB).build();
        assert!(found("pending-at-oom", &small, Some(80 * GIB)).is_empty());
        // Pinned by a live neighbour, on a stream that did not ask.
        let other = on_stream(2, 1).free_requested(B, 4 * GIB).stream(0).oom(4 * GIB, GIB).build();
        assert!(found("pending-at-oom", &other, Some(80 * GIB)).is_empty());
    }
}
