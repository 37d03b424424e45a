//! Workspaces of libraries in recordings whose frames do not show the handle pool.
//!
//! Owns the sizes that cuBLAS asks for, and how one is told from a tensor of that size: it comes once for a
//! stream from a call that else allocates other sizes, and stays.

use crate::rebuild::NONE;

use super::{Category, Kept, Phase, Settling};

/// What cuBLAS asks for each stream (32 MiB on Hopper, 8.125 MiB before) and cuBLASLt (1 MiB).
const SIZES: [u64; 3] = [33_554_432, 8_519_680, 1_048_576];

impl Settling<'_, '_> {
    /// Those of backward passes (`in_pass`), which may be gradients too, or all others.
    pub(super) fn workspaces(&mut self, kept: &[Kept], in_pass: bool) {
        let rows = &self.history.allocations;
        let is_one = |kept: &Kept| {
            let row = kept.row as usize;
            let may_be = match self.phase(*kept) {
                Phase::Backward => in_pass,
                Phase::Forward | Phase::Evaluation | Phase::Unknown => !in_pass,
                _ => false,
            };
            kept.born != NONE && kept.died == NONE && may_be && SIZES.contains(&rows.requested_bytes[row])
        };
        let mut found: Vec<(u32, u64, u32, Kept)> = kept
            .iter()
            .filter(|kept| is_one(kept))
            .map(|&kept| {
                let row = kept.row as usize;
                let stream = self.device.events.streams[rows.alloc_events[row] as usize];
                (rows.stacks[row].0, rows.requested_bytes[row], stream, kept)
            })
            .collect();
        if found.is_empty() {
            return;
        }
        let last_left = self.last_left(kept);
        // The gradient of a parameter of this size, unless later passes leave such gradients too.
        let may_be_gradient = |settling: &Self, kept: Kept, size: u64| {
            let at = SIZES.iter().position(|&other| other == size);
            let is_made_again = at.is_some_and(|at| last_left[at] > Some(kept.born));
            settling.phase(kept) == Phase::Backward && settling.anchors.count(size) > 0 && !is_made_again
        };
        found.sort_unstable_by_key(|&(stack, size, stream, kept)| (stack, size, stream, kept.row));
        let uses = self.uses_of_stacks();
        for alike in found.chunk_by(|a, b| (a.0, a.1, a.2) == (b.0, b.1, b.2)) {
            let (stack, size, _, kept) = alike[0];
            let is_calls_own = uses.get(stack as usize).is_some_and(|&uses| uses > 1);
            let has_frames = stack != 0 || self.phase(kept) == Phase::Backward;
            if alike.len() == 1 && is_calls_own && has_frames && !may_be_gradient(self, kept, size) {
                self.set(kept, Category::Workspace);
            }
        }
    }

    /// How many allocations each stack made.
    fn uses_of_stacks(&self) -> Vec<u32> {
        let mut uses: Vec<u32> = Vec::new();
        for stack in &self.history.allocations.stacks {
            let at = stack.0 as usize;
            if at >= uses.len() {
                uses.resize(at + 1, 0);
            }
            uses[at] = uses[at].saturating_add(1);
        }
        uses
    }

    /// By size of [`SIZES`]: the last backward pass that leaves one behind.
    fn last_left(&self, kept: &[Kept]) -> [Option<u32>; SIZES.len()] {
        let mut last = [None; SIZES.len()];
        for kept in kept.iter().filter(|&&kept| self.phase(kept) == Phase::Backward) {
            let requested = self.history.allocations.requested_bytes[kept.row as usize];
            if let Some(at) = SIZES.iter().position(|&size| size == requested) {
                last[at] = last[at].max(Some(kept.born));
            }
        }
        last
    }
}
