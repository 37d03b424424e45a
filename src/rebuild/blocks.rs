//! The blocks of every held segment, as the allocator links them.
//!
//! Owns splitting, merging and lookup by address. Knows nothing of events or allocations beyond a row
//! number per block. Blocks sit in a slab, found by their first byte through one hash map (addresses come
//! from the file, hence a seeded hasher) and linked to their neighbours within the segment, so every step
//! of the common path costs a few hash operations and no ordered search.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::history::NONE;
use crate::model::BlockState;

/// A block and its neighbours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) address: u64,
    pub(super) bytes: u64,
    /// Allocation row; [`NONE`] while free.
    pub(super) row: u32,
    /// Range row in which the block began; for expandable segments only the kind is taken from it.
    pub(super) range: u32,
    pub(super) previous: u32,
    pub(super) next: u32,
    pub(super) state: BlockState,
    pub(super) small: bool,
    pub(super) expandable: bool,
}

impl Node {
    pub(super) fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes)
    }

    /// Whether it has a neighbour in its segment: the allocator's `is_split`.
    pub(super) fn is_split(&self) -> bool {
        self.previous != NONE || self.next != NONE
    }
}

/// What a merge changed, for counters: how many free neighbours were taken in, and their bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Merged {
    pub(super) blocks: u64,
    pub(super) bytes: u64,
}

/// All blocks of one device.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    nodes: Vec<Node>,
    spare: Vec<u32>,
    by_address: HashMap<u64, u32>,
    /// First blocks of segments, by address: the way in for a search by containment.
    heads: BTreeMap<u64, u32>,
    /// Every block by address, once a recording has used up the steps that searches by walking may take.
    ordered: Option<BTreeMap<u64, u32>>,
}

impl Blocks {
    pub(super) fn node(&self, index: u32) -> &Node {
        &self.nodes[index as usize]
    }

    pub(super) fn node_mut(&mut self, index: u32) -> &mut Node {
        &mut self.nodes[index as usize]
    }

    /// The block that starts at `address`.
    #[inline]
    pub(super) fn at(&self, address: u64) -> Option<u32> {
        self.by_address.get(&address).copied()
    }

    /// Enters a segment (or mapped range) as one free block. Returns `None` if a block already starts there.
    pub(super) fn add_segment(&mut self, template: Node, budget: &mut u64) -> Option<u32> {
        if self.by_address.contains_key(&template.address) {
            return None;
        }
        let index = self.insert(template);
        self.heads.insert(template.address, index);
        if template.expandable {
            self.link_neighbours(index, budget);
        }
        Some(index)
    }

    /// Ties a newly mapped range to the blocks it touches.
    fn link_neighbours(&mut self, index: u32, budget: &mut u64) {
        let node = *self.node(index);
        if let Some((&_, &head)) = self.heads.range(..node.address).next_back()
            && let Some(last) = self.last_of(head, budget)
            && self.node(last).expandable
            && self.node(last).end() == node.address
        {
            self.node_mut(last).next = index;
            self.node_mut(index).previous = last;
            self.heads.remove(&node.address);
        }
        if let Some(next) = self.at(node.end())
            && self.node(next).expandable
            && self.node(next).previous == NONE
        {
            self.node_mut(next).previous = index;
            self.node_mut(index).next = next;
            self.heads.remove(&node.end());
        }
    }

    fn last_of(&self, head: u32, budget: &mut u64) -> Option<u32> {
        let mut at = head;
        while self.node(at).next != NONE {
            *budget = budget.checked_sub(1)?;
            at = self.node(at).next;
        }
        Some(at)
    }

    /// Cuts `bytes` from the front of free block `index`; the rest becomes a free block behind it.
    pub(super) fn split(&mut self, index: u32, bytes: u64) {
        let node = *self.node(index);
        let rest = Node {
            address: node.address + bytes,
            bytes: node.bytes - bytes,
            row: NONE,
            previous: index,
            state: BlockState::Inactive,
            ..node
        };
        let rest_index = self.insert(rest);
        if node.next != NONE {
            self.node_mut(node.next).previous = rest_index;
        }
        let front = self.node_mut(index);
        front.bytes = bytes;
        front.next = rest_index;
    }

    /// Joins free block `index` with its free neighbours. Returns the joined block and what was taken in.
    pub(super) fn merge(&mut self, index: u32) -> (u32, Merged) {
        let mut merged = Merged::default();
        let mut index = index;
        let previous = self.node(index).previous;
        if previous != NONE && self.node(previous).state == BlockState::Inactive {
            merged.blocks += 1;
            merged.bytes += self.node(previous).bytes;
            self.absorb_next(previous);
            index = previous;
        }
        let next = self.node(index).next;
        if next != NONE && self.node(next).state == BlockState::Inactive {
            merged.blocks += 1;
            merged.bytes += self.node(next).bytes;
            self.absorb_next(index);
        }
        (index, merged)
    }

    fn absorb_next(&mut self, index: u32) {
        let next = self.node(index).next;
        let gone = *self.node(next);
        self.remove(next);
        let node = self.node_mut(index);
        node.bytes = node.bytes.saturating_add(gone.bytes);
        node.next = gone.next;
        if gone.next != NONE {
            self.node_mut(gone.next).previous = index;
        }
    }

    /// Takes free block `index` out of its segment; its neighbours become ends of segments.
    pub(super) fn cut_out(&mut self, index: u32) {
        let node = *self.node(index);
        self.heads.remove(&node.address);
        if node.previous != NONE {
            self.node_mut(node.previous).next = NONE;
        }
        if node.next != NONE {
            self.node_mut(node.next).previous = NONE;
            self.heads.insert(self.node(node.next).address, node.next);
        }
        self.remove(index);
    }

    /// The block that contains `address`, by walking its segment. Each step is charged to `budget`, so that
    /// a hostile file cannot make this quadratic; out of budget, blocks are kept in order from then on.
    pub(super) fn containing(&mut self, address: u64, budget: &mut u64) -> Option<u32> {
        let (_, &head) = self.heads.range(..=address).next_back()?;
        let mut at = head;
        loop {
            let node = self.node(at);
            if node.address <= address && address < node.end() {
                return Some(at);
            }
            if node.next == NONE || node.address > address {
                return None;
            }
            if *budget == 0 {
                return self.containing_in_order(address);
            }
            *budget -= 1;
            at = node.next;
        }
    }

    fn containing_in_order(&mut self, address: u64) -> Option<u32> {
        let all = || self.by_address.iter().map(|(&address, &index)| (address, index)).collect();
        let ordered = self.ordered.get_or_insert_with(all);
        let (_, &index) = ordered.range(..=address).next_back()?;
        (address < self.nodes[index as usize].end()).then_some(index)
    }

    /// First block of every segment, by address.
    pub(super) fn heads(&self) -> impl Iterator<Item = u32> {
        self.heads.values().copied()
    }

    fn insert(&mut self, node: Node) -> u32 {
        let index = if let Some(index) = self.spare.pop() {
            self.nodes[index as usize] = node;
            index
        } else {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        };
        self.by_address.insert(node.address, index);
        if let Some(ordered) = &mut self.ordered {
            ordered.insert(node.address, index);
        }
        index
    }

    fn remove(&mut self, index: u32) {
        let address = self.nodes[index as usize].address;
        self.by_address.remove(&address);
        if let Some(ordered) = &mut self.ordered {
            ordered.remove(&address);
        }
        self.spare.push(index);
    }
}

#[cfg(test)]
#[path = "blocks_tests.rs"]
mod tests;
