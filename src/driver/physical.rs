//! Physical memory that is mapped by hand.
//!
//! Owns how long it lives: until every handle is released and every mapping gone. Does not own takings, whose numbers it
//! only passes on.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Physical {
    handles: FxHashMap<u64, u32>,
    /// By their number here.
    memories: Vec<Held>,
    /// What is mapped, by address.
    mapped: BTreeMap<u64, Mapped>,
}

#[derive(Debug)]
struct Held {
    taking: u32,
    handles: u64,
    mappings: u64,
}

#[derive(Debug)]
struct Mapped {
    memory: Option<u32>,
    index: u32,
}

/// What came of releasing a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Released {
    /// It is not known, or was released before.
    Unknown,
    /// The memory has other handles, or is mapped.
    Lives,
    /// It was the last that kept this taking.
    Ended(u32),
}

/// A mapping that went.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unmapped {
    /// What [`Physical::map`] was given.
    pub(super) index: u32,
    /// The taking that ended with it, if it was the last.
    pub(super) ended: Option<u32>,
}

impl Physical {
    /// Memory `taking` is known by `handle`. Answers the taking that had the handle, if it was not released.
    pub(super) fn create(&mut self, handle: u64, taking: u32) -> Option<u32> {
        self.memories.push(Held { taking, handles: 1, mappings: 0 });
        let old = self.handles.insert(handle, self.memories.len() as u32 - 1)?;
        // Memory that is mapped may outlive its handle, which can then stand for another.
        self.memories
            .get(old as usize)
            .filter(|held| held.handles > 0 && held.mappings == 0)
            .map(|held| held.taking)
    }

    /// Whether memory is known by `handle` now.
    pub(super) fn is_known(&self, handle: u64) -> bool {
        let held = self.handles.get(&handle).and_then(|&at| self.memories.get(at as usize));
        held.is_some_and(|held| held.handles > 0)
    }

    /// One more handle for memory that is known.
    pub(super) fn retain(&mut self, handle: u64) {
        if let Some(held) = self.handles.get(&handle).and_then(|&at| self.memories.get_mut(at as usize)) {
            held.handles += 1;
        }
    }

    /// A handle is released.
    pub(super) fn release(&mut self, handle: u64) -> Released {
        let held = self.handles.get(&handle).and_then(|&at| self.memories.get_mut(at as usize));
        let Some(held) = held.filter(|held| held.handles > 0) else { return Released::Unknown };
        held.handles -= 1;
        held.ended().map_or(Released::Lives, Released::Ended)
    }

    /// Memory behind `handle` is mapped at `address`; `index` is the caller's. Answers the taking.
    pub(super) fn map(&mut self, handle: u64, address: u64, index: u32) -> Option<u32> {
        let memory = self.handles.get(&handle).copied();
        self.mapped.insert(address, Mapped { memory, index });
        let held = self.memories.get_mut(memory? as usize)?;
        held.mappings += 1;
        Some(held.taking)
    }

    /// What is mapped in these addresses goes.
    pub(super) fn unmap(&mut self, address: u64, bytes: u64) -> Vec<Unmapped> {
        let end = address.saturating_add(bytes.max(1));
        let starts: Vec<u64> = self.mapped.range(address..end).map(|(&start, _)| start).collect();
        let gone: Vec<Mapped> = starts.iter().filter_map(|start| self.mapped.remove(start)).collect();
        gone.iter().map(|gone| self.unmapped(gone)).collect()
    }

    fn unmapped(&mut self, gone: &Mapped) -> Unmapped {
        let held = gone.memory.and_then(|at| self.memories.get_mut(at as usize));
        let ended = held.and_then(|held| {
            held.mappings = held.mappings.saturating_sub(1);
            held.ended()
        });
        Unmapped { index: gone.index, ended }
    }
}

impl Held {
    fn ended(&self) -> Option<u32> {
        (self.handles == 0 && self.mappings == 0).then_some(self.taking)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_lives_until_the_last_handle_and_the_last_mapping_are_gone() {
        let mut physical = Physical::default();
        assert_eq!(physical.create(7, 0), None);
        assert_eq!(physical.map(7, 0x1000, 0), Some(0));
        assert_eq!(physical.map(7, 0x3000, 1), Some(0));
        assert!(physical.is_known(7));
        physical.retain(7);
        assert_eq!(physical.release(7), Released::Lives);
        assert_eq!(physical.release(7), Released::Lives);
        assert_eq!(physical.release(7), Released::Unknown, "released often enough");
        assert!(!physical.is_known(7));
        assert_eq!(physical.unmap(0x1000, 0x1000), [Unmapped { index: 0, ended: None }]);
        assert_eq!(physical.unmap(0x3000, 0x1000), [Unmapped { index: 1, ended: Some(0) }]);
        assert!(physical.unmap(0x3000, 0x1000).is_empty());
    }

    #[test]
    fn one_unmap_may_span_several_mappings_and_unknown_memory_has_no_taking() {
        let mut physical = Physical::default();
        physical.create(7, 0);
        physical.release(7);
        assert_eq!(physical.map(9, 0x2000, 0), None);
        physical.create(8, 1);
        physical.map(8, 0x1000, 1);
        physical.release(8);
        let gone = physical.unmap(0x1000, 0x2000);
        assert_eq!(gone, [Unmapped { index: 1, ended: Some(1) }, Unmapped { index: 0, ended: None }]);
    }

    #[test]
    fn a_handle_value_that_comes_again_is_other_memory() {
        let mut physical = Physical::default();
        physical.create(7, 0);
        physical.map(7, 0x1000, 0);
        physical.release(7);
        assert_eq!(physical.create(7, 1), None, "the first lives on in its mapping");
        assert_eq!(physical.create(7, 2), Some(1), "no release was seen");
        assert_eq!(physical.unmap(0x1000, 1), [Unmapped { index: 0, ended: Some(0) }]);
    }
}
