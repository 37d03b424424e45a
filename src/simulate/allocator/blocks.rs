//! Blocks of the model: a slab of linked blocks and, per group, the ordered lists of free and of unmapped ones.
//!
//! Owns links, splitting and merging, and keeps the lists in step. Knows no policy: which block is taken,
//! mapped or returned is decided next door.

use std::collections::BTreeSet;

use crate::rebuild::NONE;

/// What a block is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::simulate) enum Use {
    /// In the list of free blocks, or about to be.
    Free,
    /// Handed out.
    Allocated,
    /// Given back, waiting for other streams.
    Pending,
    /// Address space of an expandable segment without memory behind it.
    Unmapped,
}

/// A block and its neighbours.
#[derive(Clone, Copy, Debug)]
pub(in crate::simulate) struct Block {
    pub(in crate::simulate) address: u64,
    pub(in crate::simulate) bytes: u64,
    pub(in crate::simulate) previous: u32,
    pub(in crate::simulate) next: u32,
    pub(in crate::simulate) group: u32,
    pub(in crate::simulate) usage: Use,
    pub(in crate::simulate) expandable: bool,
    /// The pool's call count when it entered the list of free blocks: its birth for garbage collection.
    pub(in crate::simulate) listed_at: u64,
    /// Where its segment or reservation begins: granules count from there.
    pub(in crate::simulate) origin: u64,
}

impl Block {
    pub(in crate::simulate) fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes)
    }

    /// Whether it is a whole segment.
    pub(in crate::simulate) fn is_whole(&self) -> bool {
        self.previous == NONE && self.next == NONE
    }
}

/// Blocks of one pool (small or large) on one stream.
#[derive(Clone, Debug)]
pub(in crate::simulate) struct Group {
    /// Free blocks as (bytes, address, block).
    pub(in crate::simulate) free: BTreeSet<(u64, u64, u32)>,
    /// Unmapped blocks as (address, block).
    pub(in crate::simulate) unmapped: BTreeSet<(u64, u32)>,
    /// Number of the pool, small and large apart.
    pub(in crate::simulate) pool: u32,
    pub(in crate::simulate) stream: u64,
    pub(in crate::simulate) small: bool,
    /// Whether the pool is a private one.
    pub(in crate::simulate) private: bool,
}

/// All blocks of the model.
#[derive(Clone, Debug, Default)]
pub(in crate::simulate) struct Blocks {
    slab: Vec<Block>,
    spare: Vec<u32>,
    pub(in crate::simulate) groups: Vec<Group>,
    /// Searches per pool, counted for garbage collection alone.
    pub(in crate::simulate) calls: Vec<u64>,
}

impl Blocks {
    #[inline]
    pub(in crate::simulate) fn get(&self, index: u32) -> &Block {
        &self.slab[index as usize]
    }

    #[inline]
    pub(in crate::simulate) fn get_mut(&mut self, index: u32) -> &mut Block {
        &mut self.slab[index as usize]
    }

    /// A new block, in no list.
    pub(in crate::simulate) fn add(&mut self, block: Block) -> u32 {
        if let Some(index) = self.spare.pop() {
            self.slab[index as usize] = block;
            return index;
        }
        self.slab.push(block);
        (self.slab.len() - 1) as u32
    }

    /// Enters `index` into the list that its use names.
    #[inline]
    pub(in crate::simulate) fn list(&mut self, index: u32) {
        let block = &mut self.slab[index as usize];
        let group = &mut self.groups[block.group as usize];
        if block.usage == Use::Unmapped {
            group.unmapped.insert((block.address, index));
        } else {
            block.listed_at = self.calls[group.pool as usize];
            group.free.insert((block.bytes, block.address, index));
        }
    }

    /// Takes `index` out of the list that its use names.
    #[inline]
    pub(in crate::simulate) fn unlist(&mut self, index: u32) {
        let block = &self.slab[index as usize];
        let group = &mut self.groups[block.group as usize];
        if block.usage == Use::Unmapped {
            group.unmapped.remove(&(block.address, index));
        } else {
            group.free.remove(&(block.bytes, block.address, index));
        }
    }

    /// Cuts unlisted block `index` after `bytes`; gives the unlisted rest, which has use `rest`.
    #[inline]
    pub(in crate::simulate) fn split(&mut self, index: u32, bytes: u64, rest: Use) -> u32 {
        let block = *self.get(index);
        let rest = self.add(Block {
            address: block.address.saturating_add(bytes),
            bytes: block.bytes - bytes,
            previous: index,
            usage: rest,
            ..block
        });
        if block.next != NONE {
            self.get_mut(block.next).previous = rest;
        }
        let front = self.get_mut(index);
        front.bytes = bytes;
        front.next = rest;
        rest
    }

    /// Joins unlisted block `index` with neighbours of the same use (free or unmapped), which leave their
    /// lists. Gives the joined block, unlisted.
    #[inline]
    pub(in crate::simulate) fn merge(&mut self, index: u32) -> u32 {
        let mut index = index;
        let block = *self.get(index);
        if block.previous != NONE && self.get(block.previous).usage == block.usage {
            self.unlist(block.previous);
            self.absorb_next(block.previous);
            index = block.previous;
        }
        if block.next != NONE && self.get(block.next).usage == block.usage {
            self.unlist(block.next);
            self.absorb_next(index);
        }
        index
    }

    fn absorb_next(&mut self, index: u32) {
        let next = self.get(index).next;
        let gone = *self.get(next);
        let block = self.get_mut(index);
        block.bytes = block.bytes.saturating_add(gone.bytes);
        block.next = gone.next;
        if gone.next != NONE {
            self.get_mut(gone.next).previous = index;
        }
        self.spare.push(next);
    }

    /// Forgets unlisted block `index`, a whole segment or reservation.
    pub(in crate::simulate) fn remove(&mut self, index: u32) {
        self.spare.push(index);
    }
}
