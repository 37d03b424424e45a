//! The final state: segments and the blocks that tile them, in all the forms they had.

use crate::error::{Error, Result};
use crate::import::graph::{NodeId, Value, View, Word};
use crate::model::{Block, BlockState, DeviceId, PoolId, Segment, SegmentKind, StackId};

use super::Builder;

/// Which of a segment's keys were there.
#[derive(Default)]
struct Seen {
    address: bool,
    size: bool,
    /// `allocated_size`, `active_size`, `requested_size`.
    stated: [bool; 3],
}

/// Where the blocks of a segment stand.
struct Layout {
    blocks: Vec<Block>,
    /// End of the last block.
    end: u64,
    tiles: bool,
    /// Whether every active block says what was requested.
    knows_requests: bool,
}

impl Builder<'_> {
    /// Reads the list of segments into the devices.
    pub(super) fn segments(&mut self, value: Value) -> Result<()> {
        let (View::List(node) | View::Tuple(node)) = value.view() else {
            return Err(Error::Shape { what: "not a memory snapshot: `segments` is not a list".to_owned() });
        };
        for index in 0..self.graph.items(node).len() {
            let item = self.item(node, index)?;
            let View::Dict(segment) = item.view() else {
                return Err(Error::Shape {
                    what: format!("not a memory snapshot: segment {index} is not a dict"),
                });
            };
            if let Some((device, segment)) = self.segment(segment)? {
                self.rows.trace.device_mut(device).segments.get_or_insert_default().push(segment);
            }
        }
        for device in &mut self.rows.trace.devices {
            if let Some(segments) = &mut device.segments {
                segments.sort_by_key(|segment| segment.address);
            }
        }
        Ok(())
    }

    fn segment(&mut self, node: NodeId) -> Result<Option<(DeviceId, Segment)>> {
        self.rows.ledger.charge(size_of::<Segment>(), 0)?;
        let entries = self.entries(node)?;
        let mut segment = Segment::default();
        let mut seen = Seen::default();
        let (mut device, mut blocks) = (Some(DeviceId(0)), None);
        for pair in entries.chunks_exact(2) {
            let (key, value) = (pair[0], pair[1]);
            match key.word() {
                Word::Device => device = self.device(value),
                Word::Blocks => blocks = Some(value),
                Word::Frames => segment.stack = self.stack(value)?,
                _ => self.segment_key(&mut segment, &mut seen, key, value),
            }
        }
        let Some(device) = device else { return Ok(None) };
        if !seen.address {
            self.missing("address", "a segment");
        }
        let mut layout =
            Layout { blocks: Vec::new(), end: segment.address, tiles: true, knows_requests: true };
        if let Some(blocks) = blocks {
            self.blocks(blocks, &mut layout)?;
        }
        if !seen.size {
            self.missing("total_size", "a segment");
            segment.bytes = layout.end.saturating_sub(segment.address);
        }
        self.check_segment(&segment, &seen, &layout);
        segment.blocks = layout.blocks;
        Ok(Some((device, segment)))
    }

    fn segment_key(&mut self, segment: &mut Segment, seen: &mut Seen, key: Value, value: Value) {
        match key.word() {
            Word::Address => {
                segment.address = self.pointer(value, "address");
                seen.address = true;
            }
            Word::TotalSize => {
                segment.bytes = self.unsigned(value, "total_size");
                seen.size = true;
            }
            Word::AllocatedSize => self.stated(segment, seen, 0, value, "allocated_size"),
            Word::ActiveSize => self.stated(segment, seen, 1, value, "active_size"),
            Word::RequestedSize => self.stated(segment, seen, 2, value, "requested_size"),
            Word::Stream => segment.stream = self.pointer(value, "stream"),
            Word::SegmentType => match value.word() {
                Word::Small => segment.kind = SegmentKind::Small,
                Word::Large => segment.kind = SegmentKind::Large,
                _ => self.odd("segment_type", "`small` or `large`"),
            },
            Word::SegmentPoolId => segment.pool = self.pool(value).unwrap_or(PoolId::DEFAULT),
            Word::IsExpandable => segment.is_expandable = self.truth(value, "is_expandable"),
            _ => self.unknown_key(key, "a segment"),
        }
    }

    fn stated(&mut self, segment: &mut Segment, seen: &mut Seen, slot: usize, value: Value, what: &str) {
        segment.stated_bytes[slot] = self.unsigned(value, what);
        seen.stated[slot] = true;
    }

    fn blocks(&mut self, value: Value, layout: &mut Layout) -> Result<()> {
        let Some((node, count)) = self.list(value, "blocks") else { return Ok(()) };
        self.rows.ledger.charge(count.saturating_mul(size_of::<Block>()), 0)?;
        layout.blocks.reserve_exact(count);
        for index in 0..count {
            let item = self.item(node, index)?;
            if let View::Dict(block) = item.view() {
                self.block(block, layout)?;
            } else {
                self.odd("block", "a dict");
            }
        }
        Ok(())
    }

    fn block(&mut self, node: NodeId, layout: &mut Layout) -> Result<()> {
        let entries = self.entries(node)?;
        let mut block = Block::default();
        let (mut address, mut requested, mut history) = (None, None, None);
        for pair in entries.chunks_exact(2) {
            let (key, value) = (pair[0], pair[1]);
            match key.word() {
                Word::Address => address = Some(self.pointer(value, "address")),
                Word::Size => block.bytes = self.unsigned(value, "size"),
                Word::RequestedSize => requested = Some(self.unsigned(value, "requested_size")),
                Word::State => block.state = self.state(value),
                Word::Frames => block.stack = self.stack(value)?,
                Word::History => history = Some(value),
                _ => self.unknown_key(key, "a block"),
            }
        }
        // Before 2.1 blocks had no address: they tile the segment in order.
        block.address = address.unwrap_or(layout.end);
        if let Some(history) = history.filter(|_| block.state != BlockState::Inactive) {
            let (stack, size) = self.history(history)?;
            block.stack = stack;
            requested = requested.or(size);
        }
        if block.state == BlockState::Inactive {
            block.stack = StackId::NONE;
        } else {
            layout.knows_requests &= requested.is_some();
        }
        block.requested_bytes = requested.unwrap_or(block.bytes);
        layout.tiles &= block.address == layout.end;
        layout.end = block.address.saturating_add(block.bytes);
        layout.blocks.push(block);
        Ok(())
    }

    fn state(&mut self, value: Value) -> BlockState {
        match value.word() {
            Word::Inactive => BlockState::Inactive,
            Word::ActiveAllocated => BlockState::ActiveAllocated,
            Word::ActivePendingFree | Word::ActiveAwaitingFree => BlockState::ActivePendingFree,
            _ => {
                self.odd("state", "a known state of a block");
                BlockState::Inactive
            }
        }
    }

    /// The newest tenant of a block (1.13 and 2.0): its stack and requested size.
    fn history(&mut self, value: Value) -> Result<(StackId, Option<u64>)> {
        let Some((node, count)) = self.list(value, "history") else { return Ok((StackId::NONE, None)) };
        if count == 0 {
            return Ok((StackId::NONE, None));
        }
        let View::Dict(newest) = self.item(node, 0)?.view() else {
            self.odd("history", "a list of dicts");
            return Ok((StackId::NONE, None));
        };
        let (mut stack, mut cpp, mut size) = (StackId::NONE, StackId::NONE, None);
        let entries = self.entries(newest)?;
        for pair in entries.chunks_exact(2) {
            match pair[0].word() {
                Word::Frames => stack = self.stack(pair[1])?,
                Word::CppFrames => cpp = self.stack(pair[1])?,
                Word::RealSize => size = Some(self.unsigned(pair[1], "real_size")),
                Word::Addr => {}
                _ => self.unknown_key(pair[0], "a block's history"),
            }
        }
        Ok((if stack == StackId::NONE { cpp } else { stack }, size))
    }

    /// What the segment says against what its blocks say.
    fn check_segment(&mut self, segment: &Segment, seen: &Seen, layout: &Layout) {
        let at = segment.address;
        if segment.bytes > super::checks::SIZE_MAX || segment.address.checked_add(segment.bytes).is_none() {
            let bytes = segment.bytes;
            self.impossible("segment size", || format!("a segment at {at:#x} of {bytes} bytes"));
        }
        if !layout.tiles || layout.end != segment.end() {
            let (end, wanted) = (layout.end, segment.end());
            self.impossible("blocks", || {
                format!("the blocks of the segment at {at:#x} do not tile it: they end at {end:#x}, it ends at {wanted:#x}")
            });
        }
        let sum =
            |counts: fn(&Block) -> u64| layout.blocks.iter().map(counts).fold(0u64, u64::saturating_add);
        let sums = [
            sum(|block| if block.state == BlockState::ActiveAllocated { block.bytes } else { 0 }),
            sum(|block| if block.state == BlockState::Inactive { 0 } else { block.bytes }),
            sum(|block| if block.state == BlockState::Inactive { 0 } else { block.requested_bytes }),
        ];
        let names = ["allocated_size", "active_size", "requested_size"];
        for (slot, name) in names.into_iter().enumerate() {
            let known = seen.stated[slot] && (slot < 2 || layout.knows_requests);
            let (stated, sum) = (segment.stated_bytes[slot], sums[slot]);
            if known && stated != sum {
                self.impossible(name, || {
                    format!("the segment at {at:#x} states {stated} bytes as `{name}`, its blocks make {sum}")
                });
            }
        }
    }
}
