//! States that PyTorch gave between events, as the emitter wrote them on a GPU: each must be what the events before it
//! lead to, block for block, or an excerpt that begins there would be wrong.

use std::collections::{BTreeMap, BTreeSet};

use memlab::format::{Recording, read};
use memlab::model::{BlockState, DeviceId, Segment};
use memlab::rebuild::{History, Moment, State, rebuild};

use crate::inputs::testdata;

/// Address, bytes, requested bytes and state of every active block.
type Block = (u64, u64, u64, BlockState);

fn of_state(state: &State) -> (Vec<(u64, u64)>, Vec<Block>) {
    let segments = state.segments.iter().map(|segment| (segment.address, segment.bytes)).collect();
    let blocks = state.segments.iter().flat_map(|segment| &segment.blocks);
    let active = blocks.filter(|block| block.state != BlockState::Inactive);
    let block = |block: &memlab::rebuild::StateBlock| {
        (block.address, block.bytes, block.requested_bytes, block.state)
    };
    (segments, active.map(block).collect())
}

fn stated(segments: &[Segment]) -> (Vec<(u64, u64)>, Vec<Block>) {
    let blocks = segments.iter().flat_map(|segment| &segment.blocks);
    let active = blocks.filter(|block| block.state != BlockState::Inactive);
    let mut blocks: Vec<Block> =
        active.map(|block| (block.address, block.bytes, block.requested_bytes, block.state)).collect();
    blocks.sort_unstable_by_key(|block| block.0);
    let mut segments: Vec<(u64, u64)> =
        segments.iter().map(|segment| (segment.address, segment.bytes)).collect();
    segments.sort_unstable();
    (segments, blocks)
}

/// Every state between events that the recording has, held against the rebuilt one; how many there are.
fn held_against(bytes: &[u8], device: DeviceId, history: &History) -> usize {
    let mut seen = BTreeSet::new();
    for from in (0..history.events).step_by(500) {
        let windows = BTreeMap::from([(device, from..from + 1)]);
        let trace = Recording::open(bytes).unwrap().part(&windows);
        let Some(excerpt) = &trace.device(device).unwrap().excerpt else { continue };
        if seen.insert(excerpt.first_event) {
            let rebuilt = of_state(&history.state_at(Moment(excerpt.first_event)));
            let stated = stated(&excerpt.segments);
            assert_eq!(stated.0, rebuilt.0, "segments before event {}", excerpt.first_event);
            assert_eq!(stated.1, rebuilt.1, "blocks before event {}", excerpt.first_event);
        }
    }
    seen.len()
}

#[test]
fn states_of_a_gpu_between_events_are_what_the_events_lead_to() {
    for (name, states) in [("varlen", 5), ("varlen_expandable", 5), ("kvcache", 5), ("streams", 2)] {
        let bytes = std::fs::read(testdata("emitter/states").join(format!("{name}.msgpack"))).unwrap();
        let trace = read(&bytes).unwrap();
        assert!(trace.complete, "{name}: {:?}", trace.warnings);
        let device = &trace.devices[0];
        let history = rebuild(&trace, device);
        let found = held_against(&bytes, device.device, &history);
        assert!(found >= states, "{name} has {found} states");
    }
}
