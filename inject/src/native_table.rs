//! Native stacks, each once.
//!
//! Owns the ids of modules, frames and stacks, and which of them are not in the file yet. An address means something
//! only while the same files are loaded, so what is known by addresses is forgotten when one goes.

use rustc_hash::FxHashMap;

use crate::budget;
use crate::modules::{Loaded, Module};
use crate::wire::{Chunk, Kind};

/// Most frames of a stack in the file.
const MAX_FRAMES: usize = 64;
/// Stacks that are known by addresses, at most: they take memory of the recorded program.
const MAX_KNOWN: usize = 1 << 16;

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct NativeTable {
    loaded: Loaded,
    /// By index in `loaded`: id of the module, 0 if it has none yet, and whether its frames are left out.
    places: Vec<(u32, bool)>,
    by_addresses: FxHashMap<Box<[usize]>, u32>,
    module_ids: FxHashMap<Module, u32>,
    frame_ids: FxHashMap<(u32, u64), u32>,
    stack_ids: FxHashMap<Box<[u32]>, u32>,
    fresh: Fresh,
}

/// Rows that are not written yet.
#[derive(Debug, Default)]
struct Fresh {
    modules: Vec<Module>,
    frames: Vec<(u32, u64)>,
    stacks: Vec<Box<[u32]>>,
}

impl NativeTable {
    /// Whether addresses can be looked up while the linker's counts are these.
    pub(crate) fn is_current(&self, generation: (u64, u64)) -> bool {
        self.loaded.generation == generation
    }

    /// Takes a newer list of what is loaded. Frames of `ours` are left out.
    pub(crate) fn take(&mut self, loaded: Loaded, ours: impl Fn(&Module) -> bool) {
        // Files that only came changed no address that was known.
        if loaded.generation.1 != self.loaded.generation.1 {
            self.by_addresses.clear();
        }
        self.places = loaded.modules.iter().map(|module| (0, ours(module))).collect();
        self.loaded = loaded;
    }

    /// Id of the stack with these addresses, innermost first.
    pub(crate) fn stack(&mut self, addresses: &[usize]) -> u32 {
        if addresses.is_empty() {
            return 0;
        }
        if let Some(&id) = self.by_addresses.get(addresses) {
            return id;
        }
        let theirs: Vec<usize> =
            addresses.iter().copied().filter(|&address| !self.is_ours(address)).collect();
        let frames: Box<[u32]> =
            theirs.iter().take(MAX_FRAMES).map(|&address| self.frame(address as u64)).collect();
        let id = self.intern(frames);
        if self.by_addresses.len() >= MAX_KNOWN {
            self.by_addresses.clear();
        }
        self.by_addresses.insert(addresses.into(), id);
        id
    }

    fn is_ours(&self, address: usize) -> bool {
        // A return address may lie behind the last byte of its function: look at the call.
        self.loaded.find(address as u64 - 1).is_some_and(|(module, _)| self.places[module].1)
    }

    fn frame(&mut self, address: u64) -> u32 {
        let key = match self.loaded.find(address - 1) {
            Some((module, offset)) => (self.module(module), offset + 1),
            None => (0, address),
        };
        let next = self.frame_ids.len() as u32;
        *self.frame_ids.entry(key).or_insert_with(|| {
            self.fresh.frames.push(key);
            next
        })
    }

    fn module(&mut self, index: usize) -> u32 {
        if self.places[index].0 == 0 {
            let next = self.module_ids.len() as u32 + 1;
            let module = &self.loaded.modules[index];
            self.places[index].0 = *self.module_ids.entry(module.clone()).or_insert_with(|| {
                self.fresh.modules.push(module.clone());
                next
            });
        }
        self.places[index].0
    }

    fn intern(&mut self, frames: Box<[u32]>) -> u32 {
        let next = self.stack_ids.len() as u32 + 1;
        *self.stack_ids.entry(frames).or_insert_with_key(|frames| {
            self.fresh.stacks.push(frames.clone());
            next
        })
    }

    /// A chunk with all rows that are not written yet, if there are any.
    pub(crate) fn drain(&mut self) -> Option<Chunk> {
        let fresh = std::mem::take(&mut self.fresh);
        if fresh.modules.is_empty() && fresh.frames.is_empty() && fresh.stacks.is_empty() {
            return None;
        }
        let frames: usize = fresh.stacks.iter().map(|stack| stack.len()).sum();
        let rows = fresh.modules.len() + fresh.frames.len() + fresh.stacks.len();
        // Frames of stacks are an eighth of a row's cost: counted in eighths.
        let eighths = (rows * 8 + frames) as u64;
        let mut chunk = Chunk::with_cost(Kind::Native, eighths, |eighths, payload| {
            budget::rows(eighths, budget::STACK_FRAME).saturating_add(payload)
        });
        let mut range = |key, length: usize, after: usize| {
            if length > 0 {
                chunk.fact(key).array(2).uint((after - length) as u64).uint(length as u64);
            }
        };
        range("modules", fresh.modules.len(), self.module_ids.len() + 1);
        range("frames", fresh.frames.len(), self.frame_ids.len());
        range("stacks", fresh.stacks.len(), self.stack_ids.len() + 1);
        chunk.fact("stack_frames").uint(frames as u64);
        fresh.pack(&mut chunk);
        Some(chunk)
    }
}

impl Fresh {
    fn pack(&self, chunk: &mut Chunk) {
        if !self.modules.is_empty() {
            let paths = chunk.entry("module_path").array(self.modules.len());
            for module in &self.modules {
                paths.text(&module.path.to_string_lossy());
            }
            let build_ids = chunk.entry("module_build_id").array(self.modules.len());
            for module in &self.modules {
                build_ids.text(&module.build_id);
            }
            let biases: Vec<u64> = self.modules.iter().map(|module| module.bias).collect();
            chunk.column("module_bias", &biases, 1);
        }
        if !self.frames.is_empty() {
            let modules: Vec<u64> = self.frames.iter().map(|frame| frame.0.into()).collect();
            let offsets: Vec<u64> = self.frames.iter().map(|frame| frame.1).collect();
            chunk.column("frame_module", &modules, 1);
            chunk.column("frame_offset", &offsets, 1);
        }
        if !self.stacks.is_empty() {
            let lengths: Vec<u64> = self.stacks.iter().map(|stack| stack.len() as u64).collect();
            let frames: Vec<u64> = self.stacks.iter().flatten().map(|&frame| frame.into()).collect();
            chunk.column("stack_length", &lengths, 1);
            chunk.column("stack_frame", &frames, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> NativeTable {
        let mut table = NativeTable::default();
        table.take(Loaded::now(), |_| false);
        table
    }

    #[test]
    fn a_stack_is_entered_once_and_frames_are_shared() {
        let mut table = table();
        let here = a_stack_is_entered_once_and_frames_are_shared as *const () as usize + 1;
        assert_eq!(table.stack(&[]), 0);
        assert_eq!(table.stack(&[here, here + 8]), 1);
        assert_eq!(table.stack(&[here + 8]), 2);
        assert_eq!(table.stack(&[here, here + 8]), 1);
        assert_eq!((table.fresh.modules.len(), table.fresh.frames.len()), (1, 2));
        assert!(table.drain().is_some());
        assert!(table.drain().is_none());
    }

    #[test]
    fn what_lies_in_no_file_keeps_its_address() {
        let mut table = table();
        table.stack(&[4096]);
        assert_eq!(table.fresh.frames, [(0, 4096)]);
    }

    #[test]
    fn own_frames_are_left_out() {
        let mut table = NativeTable::default();
        let own = std::env::current_exe().expect("a path");
        table.take(Loaded::now(), |module| module.path == own);
        let here = own_frames_are_left_out as *const () as usize + 1;
        table.stack(&[here, 4096, here, 8192]);
        assert_eq!(table.fresh.frames, [(0, 4096), (0, 8192)]);
    }
}
