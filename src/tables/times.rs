//! When events happened, for a recording that is read in pieces.
//!
//! Owns what has to be known of all times before the first piece can be placed: whether they are sound, how long the
//! recording is, and which moments the times of marks and samples stand for. The same answers as those of
//! [`Clock::of`] over all events, without holding them.

use crate::model::{Events, NO_TIME, Trace};
use crate::rebuild::Moment;

use super::clock::Clock;

/// Recordings of fewer events have pauses and no rush; by time, unless one pause would fill half of it and more.
pub(super) const FEWEST_FOR_PAUSE: u64 = 64;

/// Times of the events of one device, and the moments that other times stand for.
#[derive(Clone, Debug)]
pub struct Times {
    events: u64,
    first_us: i64,
    last_us: i64,
    /// Whether every event has a time and none is before the one before it.
    in_order: bool,
    longest_pause_us: u64,
    /// Times that moments are asked for, ascending, each once.
    asked: Vec<i64>,
    /// By asked time: how many events are before it, as far as events were seen that are not.
    before: Vec<u64>,
    /// By asked time: how many events are before or at it, likewise.
    upto: Vec<u64>,
}

impl Times {
    /// No event so far; the times of what else `trace` has will be asked for.
    #[must_use]
    pub fn new(trace: &Trace) -> Self {
        let marks = trace.marks.iter().map(|mark| mark.time_us);
        let annotations = trace.annotations.iter().map(|annotation| annotation.time_us);
        let samples = trace.samples.iter().map(|sample| sample.time_us);
        let mut asked: Vec<i64> = marks.chain(annotations).chain(samples).chain([i64::MAX]).collect();
        asked.sort_unstable();
        asked.dedup();
        Self {
            events: 0,
            first_us: NO_TIME,
            last_us: NO_TIME,
            in_order: true,
            longest_pause_us: 0,
            asked,
            before: Vec::new(),
            upto: Vec::new(),
        }
    }

    /// What chunks of events, as (number, earliest time, latest time) and in order of time, say of the moments of times:
    /// the earliest possible ones, or else the latest. Moments are one too high. `None` without a chunk.
    pub(super) fn bounds(trace: &Trace, chunks: &[(u64, i64, i64)], earliest: bool) -> Option<Self> {
        let mut times = Self::new(trace);
        (times.first_us, times.last_us) = (chunks.first()?.1, chunks.last()?.2);
        let mut starts = vec![1];
        for chunk in chunks {
            starts.push(starts.last()? + chunk.0);
        }
        times.events = *starts.last()?;
        let bound = |&asked: &i64| {
            let at = if earliest {
                chunks.partition_point(|chunk| chunk.2 < asked)
            } else {
                chunks.partition_point(|chunk| chunk.1 <= asked)
            };
            starts[at]
        };
        times.before = times.asked.iter().map(bound).collect();
        times.upto.clone_from(&times.before);
        Some(times)
    }

    /// Takes in the next events.
    pub fn take(&mut self, events: &Events) {
        let times = events.times_us.as_slice();
        let (Some(&first), Some(&last)) = (times.first(), times.last()) else { return };
        if self.events == 0 {
            (self.first_us, self.last_us) = (first, first);
        }
        self.in_order &= self.first_us != NO_TIME && first >= self.last_us && times.is_sorted();
        let pause = times.windows(2).map(|pair| pair[1].abs_diff(pair[0])).max().unwrap_or(0);
        self.longest_pause_us = self.longest_pause_us.max(pause).max(first.abs_diff(self.last_us));
        if self.in_order {
            let number = |at: usize| self.events + at as u64;
            while let Some(&asked) = self.asked.get(self.before.len()) {
                let at = times.partition_point(|&time| time < asked);
                if at == times.len() {
                    break;
                }
                self.before.push(number(at));
            }
            while let Some(&asked) = self.asked.get(self.upto.len()) {
                let at = times.partition_point(|&time| time <= asked);
                if at == times.len() {
                    break;
                }
                self.upto.push(number(at));
            }
        }
        self.last_us = last;
        self.events += times.len() as u64;
    }

    /// Whether moments have times.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.events > 0 && self.in_order && self.first_us != self.last_us
    }

    /// The clock that knows the moments of all times that were asked for, and no positions.
    #[must_use]
    pub fn clock(&self) -> Clock<'_> {
        if self.is_sound() { Clock::Asked(self) } else { Clock::Events(self.events) }
    }

    /// How many events there are.
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    pub(super) fn start_us(&self) -> i64 {
        self.first_us
    }

    pub(super) fn duration_us(&self) -> u64 {
        self.last_us.abs_diff(self.first_us)
    }

    pub(super) fn before(&self, time_us: i64) -> Option<Moment> {
        self.answer(&self.before, time_us)
    }

    pub(super) fn upto(&self, time_us: i64) -> Option<Moment> {
        self.answer(&self.upto, time_us)
    }

    fn answer(&self, answers: &[u64], time_us: i64) -> Option<Moment> {
        let at = self.asked.binary_search(&time_us).ok()?;
        Some(Moment(answers.get(at).copied().unwrap_or(self.events)))
    }

    /// The axis of a picture over the whole recording; by time, unless one pause would fill half of it and more.
    #[must_use]
    pub fn axis(&self) -> Axis {
        let by_time = Axis { is_time: true, start_us: self.first_us, end: self.duration_us(), pause_us: 0 };
        let by_events = Axis { is_time: false, start_us: 0, end: self.events, pause_us: 0 };
        if !self.is_sound() {
            return by_events;
        }
        let pause = self.longest_pause_us;
        if self.events < FEWEST_FOR_PAUSE || pause < by_time.end / 2 {
            return by_time;
        }
        Axis { pause_us: pause, ..by_events }
    }
}

/// The axis of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Whether positions are microseconds since the first event, or numbers of events.
    pub is_time: bool,
    /// Time of the first event.
    pub start_us: i64,
    /// Position of the last moment.
    pub end: u64,
    /// Where positions are numbers although there are times: the pause that speaks against these.
    pub pause_us: u64,
}

/// Places a piece's moments on an axis.
#[derive(Clone, Copy, Debug)]
pub struct PieceClock<'a> {
    pub(super) axis: Axis,
    pub(super) times: &'a [i64],
    /// Number of the piece's first event.
    pub(super) first_event: u64,
    /// Position of the moment before the piece's first event.
    pub(super) before: u64,
}

impl PieceClock<'_> {
    pub(super) fn position(&self, moment: Moment) -> u64 {
        if !self.axis.is_time {
            return self.first_event + moment.0;
        }
        let time = moment.event().and_then(|event| self.times.get(event as usize));
        time.map_or(self.before, |time| time.abs_diff(self.axis.start_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Action, Event, Mark, MarkKind, StackId};

    fn events(times: &[i64]) -> Events {
        let mut events = Events::default();
        for &time_us in times {
            let (action, stack) = (Action::Alloc, StackId::NONE);
            events.push(Event { action, time_us, address: 0, size: 0, stream: 0, stack });
        }
        events
    }

    fn asked(times: &[i64]) -> Trace {
        let mark = |&time_us: &i64| Mark { kind: MarkKind::Step, name: String::new(), time_us, begins: None };
        Trace { marks: times.iter().map(mark).collect(), ..Trace::default() }
    }

    #[test]
    fn pieces_answer_as_the_whole_does() {
        let all = [3, 5, 5, 5, 8, 13, 13, 200, 201];
        let questions = [0, 3, 4, 5, 6, 8, 13, 14, 200, 201, 300];
        let whole = events(&all);
        let clock = Clock::of(&whole);
        for size in 1..=all.len() {
            let mut times = Times::new(&asked(&questions));
            for piece in all.chunks(size) {
                times.take(&events(piece));
            }
            assert!(times.clock().is_time());
            for time in questions {
                assert_eq!(times.clock().moment_before(time), clock.moment_before(time), "{time}, {size}");
                assert_eq!(times.clock().moment_after(time), clock.moment_after(time), "{time}, {size}");
            }
            assert_eq!(times.clock().moment_after(i64::MAX), Some(Moment(9)));
            assert_eq!((times.clock().start_us(), times.clock().end()), (Some(3), 198));
            let mut before = 0;
            for (number, piece) in all.chunks(size).enumerate() {
                let first_event = (number * size) as u64;
                let placed = PieceClock { axis: times.axis(), times: piece, first_event, before };
                for moment in 0..=piece.len() as u64 {
                    assert_eq!(placed.position(Moment(moment)), clock.position(Moment(first_event + moment)));
                }
                before = placed.position(Moment(piece.len() as u64));
            }
        }
    }

    #[test]
    fn times_that_are_no_clock_stay_none_across_pieces() {
        let sound = |pieces: &[&[i64]]| {
            let mut times = Times::new(&asked(&[]));
            for piece in pieces {
                times.take(&events(piece));
            }
            times.is_sound()
        };
        assert!(sound(&[&[5], &[5, 9]]));
        assert!(!sound(&[&[5, 9], &[8]]));
        assert!(!sound(&[&[NO_TIME], &[8]]));
        assert!(!sound(&[&[7], &[7]]));
        assert!(!sound(&[]));
    }

    #[test]
    fn a_pause_between_pieces_counts() {
        let mut times = Times::new(&asked(&[]));
        times.take(&events(&(0..40).collect::<Vec<_>>()));
        times.take(&events(&(1000..1040).collect::<Vec<_>>()));
        assert_eq!(times.axis(), Axis { is_time: false, start_us: 0, end: 80, pause_us: 961 });
    }
}
