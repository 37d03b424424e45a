//! Small programs for the tests of phases and categories.

use crate::model::TraceBuilder;

const SITE: &str = "/opt/venv/lib/python3.12/site-packages/torch/";
const SEGMENT: u64 = 0x1_0000_0000;

/// Frames of the user's own code, of a module's call, of the calling thread that starts the engine, and of an
/// optimizer's step. The engine's own events have none.
pub(in crate::tables) const USER: (&str, &str) = ("train.py", "step");
pub(in crate::tables) const CALL: [(&str, &str); 2] = [("T/nn/modules/module.py", "_call_impl"), USER];
pub(in crate::tables) const OPENS: [(&str, &str); 2] = [("T/autograd/__init__.py", "_make_grads"), USER];
pub(in crate::tables) const ENGINE: [(&str, &str); 0] = [];
pub(in crate::tables) const STEPS: [(&str, &str); 2] = [("T/optim/optimizer.py", "wrapper"), USER];
pub(in crate::tables) const MODULE: [(&str, &str); 2] = [("T/nn/modules/module.py", "_apply"), USER];

/// A block that is live: address and KiB.
pub(in crate::tables) type Block = (u64, u64);

/// A program that hands out blocks one behind the other.
pub(in crate::tables) struct Program {
    pub(in crate::tables) builder: TraceBuilder,
    next: u64,
}

impl Program {
    pub(in crate::tables) fn new() -> Self {
        Self { builder: TraceBuilder::new().segment_alloc(SEGMENT, 4 << 30), next: SEGMENT }
    }

    /// Later events come from these frames; `T/` stands for PyTorch's folder.
    pub(in crate::tables) fn at(mut self, frames: &[(&str, &str)]) -> Self {
        let paths: Vec<String> = frames.iter().map(|(file, _)| file.replace("T/", SITE)).collect();
        let stack: Vec<_> =
            paths.iter().zip(frames).map(|(path, (_, name))| (path.as_str(), 7, *name)).collect();
        self.builder = self.builder.stack(&stack);
        self
    }

    /// Hands out a block of `kib` for each, and keeps them in `live`.
    pub(in crate::tables) fn take(mut self, kib: &[u64], live: &mut Vec<Block>) -> Self {
        for &kib in kib {
            live.push((self.next, kib));
            self.builder = self.builder.alloc(self.next, kib << 10);
            self.next += kib << 10;
        }
        self
    }

    /// Hands out blocks of `kib` that nobody gives back.
    pub(in crate::tables) fn keep(self, kib: &[u64]) -> Self {
        self.take(kib, &mut Vec::new())
    }

    /// Gives all of `live` back, the last first.
    pub(in crate::tables) fn drop(mut self, live: &mut Vec<Block>) -> Self {
        for (address, kib) in live.drain(..).rev() {
            self.builder = self.builder.free(address, kib << 10);
        }
        self
    }

    /// So many blocks of 2 KiB, each given back at once.
    pub(in crate::tables) fn brief(self, count: usize) -> Self {
        (0..count).fold(self, |program, _| {
            let mut one = Vec::new();
            program.take(&[2], &mut one).drop(&mut one)
        })
    }
}
