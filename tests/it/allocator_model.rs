//! A second, naive model of the caching allocator: the independent witness of the property tests.
//!
//! It keeps every segment as a plain list of blocks, searches linearly, and states the truth after every
//! event. It shares no code with `memlab::rebuild`, on purpose.

use memlab::model::{Action, Block, BlockState, Segment, SegmentKind, Trace, TraceBuilder};
use memlab::rebuild::Usage;

const MIB: u64 = 1 << 20;

/// What a client of the allocator does.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Ask for so many bytes on stream 0 or 1.
    Alloc(u64, u64),
    /// Give back the live allocation with this number (modulo their count); pending if the flag is set.
    Free(usize, bool),
    /// The oldest pending free completes.
    Complete,
    /// Return all wholly free segments.
    EmptyCache,
}

/// A recorded run with its truth.
pub(crate) struct Run {
    pub(crate) trace: Trace,
    /// `truth[m]` holds at moment `m`.
    pub(crate) truth: Vec<Usage>,
    /// Every block of every segment after the last event.
    pub(crate) end: Vec<Segment>,
}

struct Model {
    segments: Vec<Segment>,
    next_address: u64,
    builder: Option<TraceBuilder>,
    truth: Vec<Usage>,
    live: Vec<u64>,
    pending: Vec<u64>,
}

fn round(bytes: u64) -> u64 {
    bytes.max(1).div_ceil(512) * 512
}

impl Model {
    fn emit(&mut self, action: Action, stream: u64, address: u64, size: u64) {
        let builder = self.builder.take().unwrap();
        self.builder = Some(builder.stream(stream).event(action, address, size));
        self.truth.push(self.usage());
    }

    fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for segment in &self.segments {
            usage.reserved_bytes += segment.bytes;
            for block in &segment.blocks {
                if block.state != BlockState::Inactive {
                    usage.active_bytes += block.bytes;
                    usage.requested_bytes += block.requested_bytes;
                }
                if block.state == BlockState::ActiveAllocated {
                    usage.allocated_bytes += block.bytes;
                }
            }
        }
        usage
    }

    fn best_fit(&self, rounded: u64, small: bool, stream: u64) -> Option<(usize, usize)> {
        let mut best: Option<(u64, u64, usize, usize)> = None;
        for (s, segment) in self.segments.iter().enumerate() {
            if segment.stream != stream || (segment.kind == SegmentKind::Small) != small {
                continue;
            }
            for (b, block) in segment.blocks.iter().enumerate() {
                let candidate = (block.bytes, block.address, s, b);
                if block.state == BlockState::Inactive
                    && block.bytes >= rounded
                    && best.is_none_or(|known| candidate < known)
                {
                    best = Some(candidate);
                }
            }
        }
        best.map(|(_, _, s, b)| (s, b))
    }

    fn alloc(&mut self, size: u64, stream: u64) {
        let rounded = round(size);
        let small = rounded <= MIB;
        let (s, b) = self.best_fit(rounded, small, stream).unwrap_or_else(|| {
            let bytes = if small {
                2 * MIB
            } else if rounded < 10 * MIB {
                20 * MIB
            } else {
                rounded.div_ceil(2 * MIB) * 2 * MIB
            };
            let address = self.next_address;
            self.next_address += bytes + 2 * MIB;
            let kind = if small { SegmentKind::Small } else { SegmentKind::Large };
            let free = Block { address, bytes, ..Block::default() };
            self.segments.push(Segment {
                address,
                bytes,
                stream,
                kind,
                blocks: vec![free],
                ..Segment::default()
            });
            self.emit(Action::SegmentAlloc, stream, address, bytes);
            (self.segments.len() - 1, 0)
        });
        let block = &mut self.segments[s].blocks[b];
        let rest = block.bytes - rounded;
        let address = block.address;
        block.state = BlockState::ActiveAllocated;
        block.requested_bytes = size;
        if rest >= 512 && (small || rest > MIB) {
            block.bytes = rounded;
            let free = Block { address: address + rounded, bytes: rest, ..Block::default() };
            self.segments[s].blocks.insert(b + 1, free);
        }
        self.live.push(address);
        self.emit(Action::Alloc, stream, address, size);
    }

    fn locate(&self, address: u64) -> (usize, usize) {
        for (s, segment) in self.segments.iter().enumerate() {
            if let Some(b) = segment.blocks.iter().position(|block| block.address == address) {
                return (s, b);
            }
        }
        panic!("no block at {address:#x}");
    }

    fn request_free(&mut self, address: u64) {
        let (s, b) = self.locate(address);
        self.segments[s].blocks[b].state = BlockState::ActivePendingFree;
        let (stream, size) = (self.segments[s].stream, self.segments[s].blocks[b].requested_bytes);
        self.emit(Action::FreeRequested, stream, address, size);
    }

    fn complete_free(&mut self, address: u64) {
        let (s, b) = self.locate(address);
        let (stream, size) = (self.segments[s].stream, self.segments[s].blocks[b].requested_bytes);
        let blocks = &mut self.segments[s].blocks;
        blocks[b].state = BlockState::Inactive;
        let mut index = 0;
        while index + 1 < blocks.len() {
            let both_free = blocks[index].state == BlockState::Inactive
                && blocks[index + 1].state == BlockState::Inactive;
            if both_free {
                blocks[index].bytes += blocks[index + 1].bytes;
                blocks.remove(index + 1);
            } else {
                index += 1;
            }
        }
        self.emit(Action::FreeCompleted, stream, address, size);
    }

    fn empty_cache(&mut self) {
        while let Some(at) = self
            .segments
            .iter()
            .position(|segment| segment.blocks.len() == 1 && segment.blocks[0].state == BlockState::Inactive)
        {
            let gone = self.segments.remove(at);
            self.emit(Action::SegmentFree, gone.stream, gone.address, gone.bytes);
        }
    }
}

/// Carries out `steps` and records them.
pub(crate) fn record(steps: &[Step]) -> Run {
    let mut model = Model {
        segments: Vec::new(),
        next_address: 0x7f00_0000_0000,
        builder: Some(TraceBuilder::new().at("train.py", 7, "step")),
        truth: vec![Usage::default()],
        live: Vec::new(),
        pending: Vec::new(),
    };
    for step in steps {
        match step {
            Step::Alloc(size, stream) => model.alloc(*size, *stream),
            Step::Free(which, waits) if !model.live.is_empty() => {
                let address = model.live.remove(which % model.live.len());
                model.request_free(address);
                if *waits {
                    model.pending.push(address);
                } else {
                    model.complete_free(address);
                }
            }
            Step::Complete if !model.pending.is_empty() => {
                let address = model.pending.remove(0);
                model.complete_free(address);
            }
            Step::EmptyCache => model.empty_cache(),
            Step::Free(..) | Step::Complete => {}
        }
    }
    let mut end = model.segments.clone();
    end.sort_by_key(|segment| segment.address);
    let trace = model.builder.take().unwrap().stack(&[]).segments(end.clone()).build();
    Run { trace, truth: model.truth, end }
}

/// The same run as a ring would have kept it: without its first `lost` events.
pub(crate) fn without_beginning(run: &Run, lost: usize) -> Trace {
    let mut trace = run.trace.clone();
    let events = &mut trace.devices[0].events;
    let kept: Vec<_> = (lost..events.len()).map(|index| events.get(index)).collect();
    *events = memlab::model::Events::default();
    for event in kept {
        events.push(event);
    }
    trace
}
