//! `library-workspace`: cuBLAS and its like keep workspaces for as long as the process lives.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Result;
use crate::findings::workspaces::{Workspaces, stream_of};
use crate::findings::{Check, Finding, Guide, Rule, Scene, Severity};
use crate::rebuild::NONE;
use crate::units::{Bytes, Count};

/// More of one size on one stream than threads can explain are no workspaces of handles.
const MOST_PER_STREAM: usize = 8;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "library-workspace",
    heading: "A library's workspace, not a leak",
    guide: Guide {
        says: "Some memory that is still live at the end belongs to a matrix library (cuBLAS, cuBLASLt, \
            cuSPARSE, cuSOLVER), which PyTorch serves from its own allocator. It appears with the first \
            matrix product of a thread on a stream and stays. It is not a leak, and it does not grow from \
            step to step.",
        fires: "An allocation stays until nothing is asked for any more, and the native part of its stack goes \
            through a library's handle pool (`getCurrentCUDABlasHandle`, `getCUDABlasLtWorkspace`, \
            `CublasHandlePool.cpp` and their like). There are at most 8 of one size on one stream.\n\n\
            Without native frames (`stacks=\"python\"`) only two sizes count. 8,519,680 bytes (PyTorch's \
            default before Hopper), whoever asked. 33,554,432 bytes (the default on Hopper and later) when its \
            request was recorded, no other allocation of that stack and stream has this size, at most 4 came \
            before it, and at least 2 later ones of the stack are gone. The backward pass runs on a thread of its \
            own with a second handle: the only other allocation of that size that stays on the stream is its \
            workspace, if it has no frames.",
        why: "A handle exists once for each thread and stream, so there are few workspaces and their number is \
            bounded: a training job has two, one for your thread and one for the backward pass. 8,519,680 is \
            2 x 4 MiB + 8 x 16 KiB, which nothing else asks for; 32 MiB is a round number that a tensor may \
            well have, so there the place must fit too.",
        needs: "Stacks. With `stacks=\"all\"` the library is named by its own frames; with Python frames only \
            the two sizes above can be known, and cuBLASLt's 1 MiB cannot.",
        is_not: "Not a leak, though a check that compares `memory_allocated()` before and after the first layer \
            sees it as one. Not the workspace of a single convolution or matrix product either, which is \
            given back at the end of the call.",
        remedy: "Nothing. In a leak check, run one matrix product before the first measurement, or clear the \
            workspaces before both. Where the bytes matter, `CUBLAS_WORKSPACE_CONFIG` makes them smaller and \
            some products slower.",
    },
    check: Check::Device(find),
};

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let Workspaces { by_frames, by_place } = Workspaces::of(scene);
    let rows: Vec<usize> = few_per_stream(scene, by_frames.iter().chain(&by_place).copied());
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let is_certain = rows.iter().all(|row| by_frames.binary_search(row).is_ok());
    let streams: BTreeSet<u64> = rows.iter().filter_map(|&row| stream_of(scene, row)).collect();
    let bytes = scene.block_bytes(&rows);
    let many = if rows.len() == 1 {
        "the workspace".to_owned()
    } else {
        format!("{} workspaces", Count(rows.len() as u64))
    };
    let are = match (is_certain, rows.len()) {
        (true, _) => format!("are {many}"),
        (false, 1) => "have the size and place of the workspace".to_owned(),
        (false, _) => format!("have the size and place of {many}"),
    };
    let title =
        format!("{} {are} of a matrix library, made once for each thread and stream: no leak", Bytes(bytes));
    let events = rows.iter().map(|&row| scene.history.allocations.alloc_events[row]);
    let first = events.filter(|&event| event != NONE).min();
    let known_by = if is_certain { "native frames" } else { "size and place" };
    let finding = Finding::new(&RULE, Severity::Info, scene.id(), bytes, title)
        .lines(scene.lines_of(&rows))
        .evidence("workspace_bytes", bytes)
        .evidence("workspaces", rows.len())
        .evidence("streams", streams.len())
        .evidence("known_by", known_by)
        .evidence("first_event", first)
        .remedy(REMEDY);
    Ok(vec![finding])
}

const REMEDY: &str = "Nothing need be done: the memory is taken once and used by every later matrix product. A \
    test for leaks should run one matrix product before its first measurement, or call \
    torch._C._cuda_clearCublasWorkspaces() before both. CUBLAS_WORKSPACE_CONFIG (for example :16:8) makes the \
    workspaces smaller, at the price of slower products.";

/// Leaves out sizes of which one stream has too many.
fn few_per_stream(scene: &Scene<'_>, rows: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut of_kind: BTreeMap<(Option<u64>, u64), Vec<usize>> = BTreeMap::new();
    for row in rows {
        let size = scene.history.allocations.requested_bytes[row];
        of_kind.entry((stream_of(scene, row), size)).or_default().push(row);
    }
    let few = of_kind.into_values().filter(|rows| rows.len() <= MOST_PER_STREAM);
    let mut rows: Vec<usize> = few.flatten().collect();
    rows.sort_unstable();
    rows
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::findings::scene::samples::found;
    use crate::findings::{Finding, Severity};
    use crate::model::TraceBuilder;

    const A: u64 = 0x7f00_0000_0000;
    const MIB: u64 = 1 << 20;
    const LINEAR: &str = "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py";
    const POOL: (&str, u64, &str) = ("CublasHandlePool.cpp", 0, "getCurrentCUDABlasHandle");
    const NATIVE: (&str, u64, &str) = ("??", 0, "at::cuda::getCUDABlasLtWorkspace()");

    fn workspaces(builder: TraceBuilder) -> Vec<Finding> {
        found("library-workspace", &builder.build(), None)
    }

    fn begun() -> TraceBuilder {
        TraceBuilder::new().segment_alloc(A, 2048 * MIB)
    }

    /// `calls` of a layer that allocate 4 MiB each, which are gone at the next; the first also `workspace`.
    fn layer(mut builder: TraceBuilder, calls: u64, workspace: u64) -> TraceBuilder {
        builder = builder.stack(&[(LINEAR, 134, "forward"), ("train.py", 9, "step")]);
        for call in 0..calls {
            builder = builder.alloc(A, 4 * MIB);
            if call == 0 && workspace > 0 {
                builder = builder.alloc(A + 64 * MIB, workspace);
            }
            builder = builder.free(A, 4 * MIB);
        }
        builder
    }

    #[test]
    fn a_handle_pool_on_the_stack_is_certain() {
        let trace = begun().stack(&[POOL, ("f.py", 8, "linear")]).alloc(A + 64 * MIB, 8_519_680);
        let found = workspaces(layer(trace, 10, 0));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].severity, found[0].bytes), (Severity::Info, 8_519_680));
        assert_eq!(found[0].evidence["known_by"], "native frames");
        assert_eq!((found[0].lines[0].file.as_str(), found[0].lines[0].line), ("f.py", 8));
    }

    #[test]
    fn each_thread_and_stream_has_its_own() {
        let mut trace = begun();
        for stream in 0..6 {
            let at = A + (stream + 2) * 2048 * MIB;
            trace = trace.stream(stream).stack(&[NATIVE, ("f.py", 8, "linear")]);
            trace = trace.segment_alloc(at, 2 * MIB).alloc(at, MIB);
        }
        let found = workspaces(trace);
        assert_eq!((found[0].bytes, &found[0].evidence["streams"]), (6 * MIB, &6.into()));
    }

    #[test]
    fn a_workspace_that_is_given_back_is_none() {
        let trace = begun()
            .stack(&[POOL])
            .alloc(A, 8_519_680)
            .free(A, 8_519_680)
            .at("f.py", 8, "linear")
            .alloc(A, 512);
        assert!(workspaces(trace).is_empty());
    }

    #[test]
    fn more_than_threads_can_explain_are_something_else() {
        let mut trace = begun().stack(&[POOL, ("f.py", 8, "serve")]);
        for index in 0..9 {
            trace = trace.alloc(A + index * 16 * MIB, 8_519_680);
        }
        assert!(workspaces(trace).is_empty());
    }

    #[test]
    fn without_native_frames_size_and_place_must_fit() {
        let found = workspaces(layer(begun(), 5, 33_554_432));
        assert_eq!(found[0].evidence["known_by"], "size and place");
        assert_eq!((found[0].bytes, found[0].severity), (33_554_432, Severity::Info));
        assert!(workspaces(layer(begun(), 5, 16 * MIB)).is_empty(), "a size that nobody asks for by default");
        assert!(workspaces(layer(begun(), 1, 33_554_432)).is_empty(), "no later call shows the difference");
    }

    #[test]
    fn the_odd_size_needs_no_frames_at_all() {
        let trace = begun().alloc(A + 64 * MIB, 8_519_680).alloc(A, MIB).free(A, MIB);
        assert_eq!(workspaces(trace)[0].bytes, 8_519_680);
        assert!(workspaces(begun().alloc(A + 64 * MIB, 33_554_432).alloc(A, MIB)).is_empty());
        // Native frames that do not speak of a library say that it is something else.
        let other = begun().stack(&[("??", 0, "at::native::empty_cuda()"), ("f.py", 8, "make")]);
        assert!(workspaces(other.alloc(A + 64 * MIB, 8_519_680)).is_empty());
    }

    #[test]
    fn kept_outputs_of_the_same_size_are_no_workspaces() {
        let mut trace = layer(begun(), 5, 33_554_432);
        trace = trace.alloc(A + 128 * MIB, 33_554_432);
        assert!(workspaces(trace).is_empty());
        // One made late by a line that had been called before is an output, too.
        let late = layer(begun(), 9, 0).alloc(A + 128 * MIB, 33_554_432);
        assert!(workspaces(late).is_empty());
    }

    #[test]
    fn the_backward_pass_has_a_workspace_of_its_own() {
        let both = layer(begun(), 3, 33_554_432).stack(&[]).alloc(A + 256 * MIB, 33_554_432);
        let found = workspaces(layer(both.clone(), 3, 0));
        assert_eq!((found[0].bytes, &found[0].evidence["workspaces"]), (2 * 33_554_432, &2.into()));
        // A gradient of that size makes it uncertain which of the two it is.
        let gradient = both.alloc(A + 512 * MIB, 33_554_432);
        assert_eq!(workspaces(layer(gradient, 3, 0))[0].bytes, 33_554_432);
    }
}
