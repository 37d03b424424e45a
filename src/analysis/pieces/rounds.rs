//! The rounds over one device: look, analyse, and draw where pictures are wanted.
//!
//! Owns the order, and which last events are kept. What is made of each piece is `whole`'s.

use std::collections::VecDeque;

use crate::analysis::Options;
use crate::error::Result;
use crate::format::Recording;
use crate::model::{DeviceId, DeviceTrace, Events, Excerpt, Segment, StackId};
use crate::rebuild::{Moment, end_differences};
use crate::tables::{TimelineExtent, TimelineOfPieces, mark_reasons};

use super::Room;
use super::cut::Cutter;
use super::survey::Survey;
use super::whole::{Gathered, Whole};

/// What all events of `device` say, and the last of them as an excerpt.
pub(super) fn run(
    recording: &mut Recording<'_>,
    device: DeviceId,
    options: &Options,
    room: Room,
) -> Result<(Whole, (Events, Option<Excerpt>))> {
    let mut survey = Survey::of(recording, device, options.group_by, room.piece_events);
    let start = survey.carried.clone();
    let samples = recording.trace().samples.clone();
    let mut gathered = Gathered::new(recording.trace(), device, &survey.times, &samples);
    let mut last = Last::new(room.last_events);
    let (mut cutter, mut open) = (Cutter::new(recording, device, room.piece_events), StackId::NONE);
    while let Some((piece, is_last)) = cutter.next(recording) {
        let (before, state) = (survey.carried.rows().to_vec(), survey.carried.segments());
        let mut history = survey.carried.next(recording.trace(), &piece);
        survey.grouping.go_on(&piece, &history, &before, &mut open);
        if is_last {
            let differences = end_differences(recording.trace(), piece.segments.as_deref(), &history);
            history.warnings.merge(differences);
        }
        gathered.take(recording.trace(), &piece, &history, (&survey.grouping, before.len()), is_last)?;
        last.keep(piece, state);
    }
    let mut whole = gathered.finish(recording.trace(), &mut survey, options)?;
    if options.with_pictures {
        survey.carried = start;
        whole.timeline = Some(timeline(recording, device, &mut survey, &whole, room));
    }
    whole.of_driver = survey.of_driver;
    let recorded_events = whole.events;
    Ok((whole, last.excerpt(recorded_events)))
}

/// A further round, as only now it is known which lines are worth a band.
fn timeline(
    recording: &mut Recording<'_>,
    device: DeviceId,
    survey: &mut Survey,
    whole: &Whole,
    room: Room,
) -> crate::report::Timeline {
    let Survey { carried, times, grouping, .. } = survey;
    let marks = mark_reasons(&whole.peaks, &whole.oom_events, &whole.steps.clone().unwrap_or_default());
    let wanted: Vec<Moment> = marks.iter().map(|mark| mark.0).collect();
    let extent = TimelineExtent::default();
    let mut drawn = TimelineOfPieces::new(times.axis(), grouping, &whole.order, whole.main_stream, extent);
    let (mut cutter, mut open) = (Cutter::new(recording, device, room.piece_events), StackId::NONE);
    while let Some((piece, _)) = cutter.next(recording) {
        let before = carried.rows().to_vec();
        let history = carried.next(recording.trace(), &piece);
        grouping.go_on(&piece, &history, &before, &mut open);
        drawn.take(&piece, &history, grouping, &wanted);
    }
    let data = drawn.finish(marks, &whole.order);
    crate::analysis::rows::timeline(recording.trace(), grouping, &whole.order, data)
}

/// The last pieces, as many as there is room for, each with the state that it begins with.
struct Last {
    room: usize,
    events: usize,
    pieces: VecDeque<(Events, u64, Vec<Segment>)>,
}

impl Last {
    fn new(room: usize) -> Self {
        Self { room, events: 0, pieces: VecDeque::new() }
    }

    /// Keeps `piece`, and lets go of the oldest. One piece is kept in any case.
    fn keep(&mut self, piece: DeviceTrace, state: Vec<Segment>) {
        let first = piece.first_event();
        self.events += piece.events.len();
        self.pieces.push_back((piece.events, first, state));
        while self.pieces.len() > 1 && self.events > self.room {
            let oldest = self.pieces.pop_front().map_or(0, |piece| piece.0.len());
            self.events -= oldest;
        }
    }

    /// All that is kept, and how it begins; `None` where that is all there is: then it is no excerpt, and what was there
    /// before is told by the final state.
    fn excerpt(self, recorded_events: u64) -> (Events, Option<Excerpt>) {
        let mut pieces = self.pieces.into_iter();
        let Some((mut events, first_event, segments)) = pieces.next() else {
            return (Events::default(), None);
        };
        events.reserve(self.events - events.len());
        pieces.for_each(|(more, ..)| events.append(more));
        (events, (first_event > 0).then_some(Excerpt { first_event, recorded_events, segments }))
    }
}
