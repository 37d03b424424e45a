//! The model's state as plain data, for checks and pictures.

use super::{Allocator, Use};
use crate::model::SegmentKind;
use crate::rebuild::NONE;

/// Condition of a [`LayoutBlock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutUse {
    /// Cached.
    Free,
    /// Handed out.
    Allocated,
    /// Given back, waiting for other streams.
    Pending,
    /// Address space without memory.
    Unmapped,
}

/// A block of a [`LayoutSegment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutBlock {
    /// First byte.
    pub address: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// What it is.
    pub usage: LayoutUse,
}

/// A segment, or a whole reservation of an expandable segment, unmapped parts included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutSegment {
    /// First byte.
    pub address: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Stream.
    pub stream: u64,
    /// Small or large pool.
    pub kind: SegmentKind,
    /// Whether it is expandable.
    pub is_expandable: bool,
    /// Blocks in the order of their links.
    pub blocks: Vec<LayoutBlock>,
}

/// A request that is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveRequest {
    /// Where its block begins.
    pub address: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Stream that it was asked for.
    pub stream: u64,
}

/// Segments by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Segments.
    pub segments: Vec<LayoutSegment>,
    /// Live requests, by row.
    pub live: Vec<LiveRequest>,
    /// Reserved bytes as the model counts them.
    pub reserved_bytes: u64,
    /// Active bytes as the model counts them.
    pub active_bytes: u64,
}

impl Allocator<'_> {
    /// The state at this moment. Walks everything: for checks, not for every event of a long trace.
    /// `live` are the requests that have a block, with it.
    pub(in crate::simulate) fn layout(&self, live: &[(u32, LiveRequest)]) -> Layout {
        let listed = self.blocks.groups.iter().flat_map(|group| {
            group.free.iter().map(|entry| entry.2).chain(group.unmapped.iter().map(|entry| entry.1))
        });
        let mut heads: Vec<u32> =
            live.iter().map(|live| live.0).chain(listed).map(|index| self.head_of(index)).collect();
        heads.sort_unstable_by_key(|&index| self.blocks.get(index).address);
        heads.dedup();
        Layout {
            segments: heads.into_iter().map(|head| self.segment_from(head)).collect(),
            live: live
                .iter()
                .map(|&(block, request)| LiveRequest { address: self.blocks.get(block).address, ..request })
                .collect(),
            reserved_bytes: self.figures.reserved,
            active_bytes: self.figures.active,
        }
    }

    fn head_of(&self, index: u32) -> u32 {
        let mut at = index;
        while self.blocks.get(at).previous != NONE {
            at = self.blocks.get(at).previous;
        }
        at
    }

    fn segment_from(&self, head: u32) -> LayoutSegment {
        let first = self.blocks.get(head);
        let group = &self.blocks.groups[first.group as usize];
        let mut blocks = Vec::new();
        let mut at = head;
        while at != NONE {
            let block = self.blocks.get(at);
            let usage = match block.usage {
                Use::Free => LayoutUse::Free,
                Use::Allocated => LayoutUse::Allocated,
                Use::Pending => LayoutUse::Pending,
                Use::Unmapped => LayoutUse::Unmapped,
            };
            blocks.push(LayoutBlock { address: block.address, bytes: block.bytes, usage });
            at = block.next;
        }
        LayoutSegment {
            address: first.address,
            bytes: blocks.iter().map(|block| block.bytes).sum(),
            stream: group.stream,
            kind: if group.small { SegmentKind::Small } else { SegmentKind::Large },
            is_expandable: first.expandable,
            blocks,
        }
    }
}
