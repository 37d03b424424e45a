//! The states of devices' memory that a file holds.
//!
//! Owns which chunks make up which state, decided from their facts, and which state is the final one. A state is
//! unpacked when it is asked for: an ordinary read asks for the final ones alone, an excerpt for the one that it
//! begins with. What a chunk says is `segments`' business.

use std::collections::BTreeMap;

use crate::model::{DeviceId, Segment, Trace};

use super::chunk::Chunk;
use super::codec::Unpacker;
use super::cursor::{Fault, Parse};
use super::ids::Ids;
use super::read::{Context, damaged};
use super::segments::{Facts, read_facts, read_segments};

/// One state, still packed.
#[derive(Debug, Default)]
struct State<'a> {
    /// Events of the device before the state was taken; `None` means all.
    events: Option<u64>,
    chunks: Vec<(Chunk<'a>, Facts)>,
    segments: u64,
    /// Whether a chunk is missing. A state with a hole is none.
    has_hole: bool,
}

/// All states of a file, by device, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct States<'a> {
    devices: BTreeMap<u32, Vec<State<'a>>>,
}

impl<'a> States<'a> {
    /// Gives a chunk its place: it begins a state, or goes on with the newest one. Nothing is unpacked.
    pub(super) fn add(&mut self, chunk: &Chunk<'a>, context: &mut Context) -> Parse<()> {
        let facts = read_facts(chunk, &mut context.trace.warnings)?;
        if !context.budget.spend(facts.cost(), chunk.end) {
            return Err(Fault::Wrong("more segments than a file of this length may hold"));
        }
        if facts.first == 0 {
            if self.devices.len() >= super::MAX_DEVICES && !self.devices.contains_key(&facts.device) {
                return Err(Fault::Wrong("more than 256 devices"));
            }
            let state = State { events: facts.events, ..State::default() };
            self.devices.entry(facts.device).or_default().push(state);
        }
        let newest = self.devices.get_mut(&facts.device).and_then(|states| states.last_mut());
        let Some(state) = newest.filter(|state| !state.has_hole && state.segments == facts.first) else {
            if let Some(state) = self.devices.get_mut(&facts.device).and_then(|states| states.last_mut()) {
                state.has_hole = true;
            }
            return Err(Fault::Wrong("segments without those before them"));
        };
        state.segments = state.segments.saturating_add(facts.count);
        state.chunks.push((*chunk, facts));
        Ok(())
    }

    /// Devices that have states, ascending.
    pub(super) fn devices(&self) -> impl Iterator<Item = u32> {
        self.devices.keys().copied()
    }

    /// Gives `trace` the final state of `device`, which has `end` events: the newest one, unless an event follows it.
    pub(super) fn decode_final(&self, device: u32, end: u64, trace: &mut Trace, ids: &Ids) {
        for state in self.devices.get(&device).into_iter().flatten().rev() {
            if state.has_hole || state.events.is_some_and(|events| events < end) {
                return;
            }
            match state.decode(trace, ids) {
                Ok(segments) => {
                    trace.device_mut(DeviceId(device)).segments = Some(segments);
                    return;
                }
                Err((at, fault)) => {
                    damaged(trace, &state.chunks[at].0, fault);
                    // One that could not even begin replaces nothing; of one that began nothing is sound.
                    if at > 0 {
                        return;
                    }
                }
            }
        }
    }

    /// The newest state of `device` at or before its event number `event` that can be read, and its number of events.
    /// Faults of others are passed over: nothing of the excerpt depends on them.
    pub(super) fn decode_before(
        &self,
        device: u32,
        event: u64,
        trace: &mut Trace,
        ids: &Ids,
    ) -> Option<(u64, Vec<Segment>)> {
        let states = self.devices.get(&device)?;
        let mut near: Vec<(u64, &State<'_>)> = states
            .iter()
            .filter(|state| !state.has_hole)
            .filter_map(|state| Some((state.events.filter(|&events| events <= event)?, state)))
            .collect();
        near.sort_by_key(|(events, _)| *events);
        near.into_iter().rev().find_map(|(events, state)| {
            let before = trace.warnings.clone();
            let segments = state.decode(trace, ids);
            if segments.is_err() {
                trace.warnings = before;
            }
            Some((events, segments.ok()?))
        })
    }
}

impl State<'_> {
    /// All segments, or the place of the chunk that has a fault.
    fn decode(&self, trace: &mut Trace, ids: &Ids) -> Result<Vec<Segment>, (usize, Fault)> {
        let mut unpacker = Unpacker::default();
        let mut segments = Vec::new();
        for (at, (chunk, facts)) in self.chunks.iter().enumerate() {
            let more = read_segments(chunk, facts, trace, ids, &mut unpacker);
            segments.extend(more.map_err(|fault| (at, fault))?);
        }
        Ok(segments)
    }
}
