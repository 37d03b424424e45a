//! Holds the rebuilt end against the final segments that the file states: the proof of exactness, or the
//! count of what differs.

use crate::model::{BlockState, Segment, Warnings};

use super::history::History;
use super::moment::Moment;
use super::state::{State, StateSegment};

/// Counts every segment and active block in which the rebuilt end differs from `stated`.
pub(super) fn end_against(stated: &[Segment], history: &History) -> Warnings {
    let rebuilt = history.state_at(Moment(history.events));
    let mut warnings = Warnings::default();
    let device = history.device.0;
    let segments = count_differences(&segment_facts(&rebuilt), &stated_segment_facts(stated));
    warnings.add_about("end-differs", &format!("{device}-segments"), segments, || {
        format!("segments whose place or size at the end of device {device} is not what the file's final state says")
    });
    let blocks = count_differences(&block_facts(&rebuilt), &stated_block_facts(stated));
    warnings.add_about("end-differs", &format!("{device}-blocks"), blocks, || {
        format!("live blocks at the end of device {device} that are not what the file's final state says")
    });
    warnings
}

/// A file whose final state has no segment on any device, though events leave some held: whoever wrote it left the
/// state out, and nothing can be held against it.
pub(super) fn end_against_nothing(history: &History) -> Warnings {
    let mut warnings = Warnings::default();
    let (device, held) = (history.device.0, history.end.reserved_bytes);
    warnings.add_about("no-segments", &device.to_string(), u64::from(held > 0), || {
        format!("the file's final state is empty, though events leave {held} bytes held on device {device}: it was left out")
    });
    warnings
}

type Fact = (u64, u64, u64);

fn segment_facts(state: &State) -> Vec<Fact> {
    state.segments.iter().map(|segment| (segment.address, segment.bytes, 0)).collect()
}

fn stated_segment_facts(segments: &[Segment]) -> Vec<Fact> {
    let mut facts: Vec<Fact> = segments.iter().map(|segment| (segment.address, segment.bytes, 0)).collect();
    facts.sort_unstable();
    facts
}

fn block_facts(state: &State) -> Vec<Fact> {
    let blocks = state.segments.iter().flat_map(|segment: &StateSegment| &segment.blocks);
    blocks
        .filter(|block| block.state != BlockState::Inactive)
        .map(|block| (block.address, block.bytes, block.state as u64))
        .collect()
}

fn stated_block_facts(segments: &[Segment]) -> Vec<Fact> {
    let blocks = segments.iter().flat_map(|segment| &segment.blocks);
    let mut facts: Vec<Fact> = blocks
        .filter(|block| block.state != BlockState::Inactive)
        .map(|block| (block.address, block.bytes, block.state as u64))
        .collect();
    facts.sort_unstable();
    facts
}

/// How many entries of either sorted list have no equal in the other; a changed entry counts once.
fn count_differences(ours: &[Fact], theirs: &[Fact]) -> u64 {
    let missing = |from: &[Fact], within: &[Fact]| {
        from.iter().filter(|fact| within.binary_search(fact).is_err()).count() as u64
    };
    missing(ours, theirs).max(missing(theirs, ours))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Block, StackId, TraceBuilder};
    use crate::rebuild::rebuild;

    fn final_state(block_bytes: u64) -> Vec<Segment> {
        let block = |address, bytes, state| Block {
            address,
            bytes,
            requested_bytes: 1000,
            state,
            stack: StackId::NONE,
        };
        vec![Segment {
            address: 0x4000_0000,
            bytes: 2 << 20,
            blocks: vec![
                block(0x4000_0000, block_bytes, BlockState::ActiveAllocated),
                block(0x4000_0000 + block_bytes, (2 << 20) - block_bytes, BlockState::Inactive),
            ],
            ..Segment::default()
        }]
    }

    fn differences(block_bytes: u64) -> u64 {
        let trace = TraceBuilder::new()
            .segment_alloc(0x4000_0000, 2 << 20)
            .alloc(0x4000_0000, 1000)
            .segments(final_state(block_bytes))
            .build();
        rebuild(&trace, &trace.devices[0]).warnings.count("end-differs")
    }

    #[test]
    fn a_state_that_was_left_out_is_no_contradiction() {
        let builder = TraceBuilder::new().segment_alloc(0x4000_0000, 2 << 20).segments(Vec::new());
        let trace = builder.clone().build();
        let warnings = rebuild(&trace, &trace.devices[0]).warnings;
        assert_eq!((warnings.count("no-segments"), warnings.count("end-differs")), (1, 0));
        let trace = builder.segment_free(0x4000_0000, 2 << 20).build();
        assert!(rebuild(&trace, &trace.devices[0]).warnings.is_empty());
    }

    #[test]
    fn an_equal_end_says_nothing_and_a_different_one_is_counted() {
        assert_eq!(differences(1024), 0);
        assert_eq!(differences(1536), 1);
    }
}
