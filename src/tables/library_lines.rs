//! Where within libraries memory was asked for.
//!
//! Owns which frame of a stack that is: the innermost one of an installed package, PyTorch and the recorder left
//! out, that the user's innermost frame called. Figures are those of `lines`. Nothing is inferred: what has no
//! such frame, as most of a backward pass, is the remainder.

use crate::error::Result;
use crate::model::{DeviceTrace, FrameId, Trace};
use crate::rebuild::{History, NONE};

use super::fingerprints::fingerprints_of;
use super::group::{frame_groups, stacks_in_use};
use super::user_code::package_frames;
use super::{
    Figures, FrameClass, GroupBy, Grouping, LineFingerprint, LineTableRow, ModuleGroups, classify_frames,
    lines,
};

/// Lines of libraries on one device.
#[derive(Clone, Debug, Default)]
pub struct LibraryTable {
    /// Lines that allocated, most bytes held at the peak first.
    pub rows: Vec<LineTableRow>,
    /// What was not allocated within a library. Together with all rows it is the allocated peak, to the byte.
    pub no_library: Figures,
    /// What each line is known by besides its number.
    pub fingerprints: Vec<LineFingerprint>,
}

/// The lines of libraries that allocate on `device`.
///
/// # Errors
/// Those of [`lines()`].
pub fn library_lines(trace: &Trace, device: &DeviceTrace, history: &History) -> Result<LibraryTable> {
    let of_stack = innermost(trace);
    let grouping = grouped(trace, device, history, &of_stack);
    let table = lines(trace, device, history, &grouping, None)?;
    Ok(LibraryTable {
        rows: table.rows(trace, &grouping, None),
        no_library: table.unattributed,
        fingerprints: fingerprints_of(trace, device, &of_stack),
    })
}

/// By stack. What calls the user's code (a trainer, a notebook) is not where it allocates, so the search ends at
/// the user's frame.
fn innermost(trace: &Trace) -> Vec<Option<FrameId>> {
    let (classes, in_package) = (classify_frames(trace), package_frames(trace));
    let is_users = |id: &FrameId| classes.get(id.0 as usize) == Some(&FrameClass::User);
    let is_package = |id: &FrameId| in_package.get(id.0 as usize) == Some(&true);
    let of_stack =
        |frames: &[FrameId]| frames.iter().copied().take_while(|id| !is_users(id)).find(is_package);
    trace.stacks.iter().map(of_stack).collect()
}

/// The stacks' frames as groups. Without facts and frames nothing is inferred, and callers do not count.
fn grouped(trace: &Trace, device: &DeviceTrace, history: &History, frames: &[Option<FrameId>]) -> Grouping {
    let used = stacks_in_use(trace, device, history);
    let mut wanted: Vec<FrameId> =
        frames.iter().zip(&used).filter_map(|(frame, used)| frame.filter(|_| *used)).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let (keys, of_frame) = frame_groups(trace, &wanted, GroupBy::Line);
    let group = |frame: &Option<FrameId>| frame.and_then(|id| of_frame.get(id.0 as usize)).copied();
    let of_stack: Vec<u32> = frames.iter().map(|frame| group(frame).unwrap_or(NONE)).collect();
    let allocations = &history.allocations;
    let of_allocation =
        allocations.stacks.iter().map(|id| of_stack.get(id.0 as usize).copied().unwrap_or(NONE)).collect();
    Grouping {
        by: GroupBy::Line,
        keys,
        of_stack,
        of_frame: Vec::new(),
        of_allocation,
        inferred: vec![false; allocations.len()],
        facts: Vec::new(),
        modules: ModuleGroups::default(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;
    use crate::rebuild::rebuild;

    const A: u64 = 0x7000_0000_0000;
    const LINEAR: &str = "/opt/site-packages/torch/nn/modules/linear.py";
    const LLAMA: &str = "/opt/site-packages/transformers/modeling_llama.py";
    const TRAINER: &str = "/opt/site-packages/transformers/trainer.py";

    fn table(trace: &Trace) -> (Vec<(String, u64, u64)>, u64) {
        let history = rebuild(trace, &trace.devices[0]);
        let table = library_lines(trace, &trace.devices[0], &history).unwrap();
        let row = |row: &LineTableRow| {
            (row.file.clone().unwrap(), row.line.unwrap(), row.figures.held_at_peak_bytes)
        };
        let rows: Vec<_> = table.rows.iter().map(row).collect();
        let sum: u64 = rows.iter().map(|row| row.2).sum();
        assert_eq!(sum + table.no_library.held_at_peak_bytes, history.peaks.allocated.bytes);
        assert!(table.rows.iter().all(|row| row.figures.own_peak_bytes >= row.figures.held_at_peak_bytes));
        assert_eq!(table.fingerprints.len(), table.rows.len(), "all of them allocate during the recording");
        (rows, table.no_library.held_at_peak_bytes)
    }

    #[test]
    fn the_innermost_frame_of_a_package_is_taken_and_pytorch_is_none() {
        let trace = TraceBuilder::new()
            .segment_alloc(A, 2 << 20)
            .stack(&[
                (LINEAR, 9, "forward"),
                (LLAMA, 175, "forward"),
                (LLAMA, 300, "forward"),
                ("a.py", 1, "f"),
            ])
            .alloc(A, 1024)
            .stack(&[(LINEAR, 9, "forward"), ("a.py", 2, "f")])
            .alloc(A + 1024, 512)
            .build();
        assert_eq!(table(&trace), (vec![(LLAMA.to_owned(), 175, 1024)], 512));
    }

    #[test]
    fn who_calls_the_users_code_does_not_allocate_in_its_place() {
        let trace = TraceBuilder::new()
            .segment_alloc(A, 2 << 20)
            .stack(&[
                (LINEAR, 9, "forward"),
                ("net.py", 7, "forward"),
                (TRAINER, 70, "train"),
                ("a.py", 1, "f"),
            ])
            .alloc(A, 1024)
            .stack(&[(TRAINER, 71, "train"), ("a.py", 1, "f")])
            .alloc(A + 1024, 512)
            .build();
        assert_eq!(table(&trace), (vec![(TRAINER.to_owned(), 71, 512)], 1024));
    }

    #[test]
    fn the_engine_is_not_charged_to_whoever_called_it_but_recomputing_to_itself() {
        let backward = "/opt/site-packages/torch/autograd/__init__.py";
        let checkpoint = "/opt/site-packages/torch/utils/checkpoint.py";
        let trace = TraceBuilder::new()
            .segment_alloc(A, 2 << 20)
            .stack(&[(backward, 3, "backward"), (TRAINER, 80, "step"), ("a.py", 1, "f")])
            .alloc(A, 512)
            .stack(&[])
            .alloc(A + 512, 2048)
            .stack(&[(LLAMA, 66, "forward"), (checkpoint, 5, "unpack_hook")])
            .alloc(A + 2560, 1024)
            .build();
        let rows = vec![(LLAMA.to_owned(), 66, 1024), (TRAINER.to_owned(), 80, 512)];
        assert_eq!(table(&trace), (rows, 2048));
    }

    #[test]
    fn without_packages_all_is_remainder() {
        let trace = TraceBuilder::new().segment_alloc(A, 2 << 20).at("a.py", 1, "f").alloc(A, 512).build();
        assert_eq!(table(&trace), (Vec::new(), 512));
    }
}
