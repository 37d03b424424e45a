//! Relates moments to time, where a recording allows it.
//!
//! Owns the decision whether a device's events have usable times. Does not own steps, pictures or exported
//! timelines, which all stand on it.

use crate::model::{Events, NO_TIME};
use crate::rebuild::Moment;

use super::times::{FEWEST_FOR_PAUSE, PieceClock, Times};

/// How positions along a recording are measured.
#[derive(Clone, Copy, Debug)]
pub enum Clock<'a> {
    /// Every event has a time and times never run backwards; microseconds since the first event.
    Time(&'a [i64]),
    /// Number of events applied.
    Events(u64),
    /// Times of a recording that is read in pieces: only moments of times that were asked for are known.
    Asked(&'a Times),
    /// A piece of a recording on the axis of the whole; moments are the piece's own.
    Piece(PieceClock<'a>),
}

impl<'a> Clock<'a> {
    /// Time, if every event has one, none is before its predecessor and not all are equal; else events.
    #[must_use]
    pub fn of(events: &'a Events) -> Self {
        let times = events.times_us.as_slice();
        let sound = times.len() == events.len()
            && times.first().is_some_and(|&first| first != NO_TIME)
            && times.is_sorted()
            && times.first() != times.last();
        if sound { Self::Time(times) } else { Self::Events(events.len() as u64) }
    }

    /// The clock of a picture over `events`, and the pause that speaks against time: where nothing happens for half
    /// of the time and more, in one piece, a picture by time would squeeze everything else into the rest. `0` where
    /// there is no such pause, in microseconds.
    pub(super) fn of_picture(events: &'a Events) -> (Self, u64) {
        let clock = Self::of(events);
        let Self::Time(times) = clock else { return (clock, 0) };
        let pause = times.windows(2).map(|pair| pair[1].abs_diff(pair[0])).max().unwrap_or(0);
        if (times.len() as u64) < FEWEST_FOR_PAUSE || pause < clock.end() / 2 {
            return (clock, 0);
        }
        (Self::Events(events.len() as u64), pause)
    }

    /// Whether positions are times.
    #[must_use]
    pub fn is_time(self) -> bool {
        match self {
            Self::Time(_) | Self::Asked(_) => true,
            Self::Piece(piece) => piece.axis.is_time,
            Self::Events(_) => false,
        }
    }

    /// Unix time of the first event in microseconds; `None` when events have no usable times.
    #[must_use]
    pub fn start_us(self) -> Option<i64> {
        match self {
            Self::Time(times) => times.first().copied(),
            Self::Asked(times) => Some(times.start_us()),
            Self::Piece(piece) => piece.axis.is_time.then_some(piece.axis.start_us),
            Self::Events(_) => None,
        }
    }

    /// Position of `moment`. The moment before the first event and the one after it have the same time.
    #[inline]
    #[must_use]
    pub fn position(self, moment: Moment) -> u64 {
        match self {
            Self::Time(times) => {
                let event = (moment.0.saturating_sub(1) as usize).min(times.len().saturating_sub(1));
                times.get(event).map_or(0, |time| time.abs_diff(times[0]))
            }
            Self::Events(_) => moment.0,
            // Nobody asks: a picture of pieces is drawn on their own clocks.
            Self::Asked(times) => {
                if moment.0 == 0 {
                    0
                } else {
                    times.duration_us()
                }
            }
            Self::Piece(piece) => piece.position(moment),
        }
    }

    /// Position of the last moment.
    #[must_use]
    pub fn end(self) -> u64 {
        match self {
            Self::Time(times) => self.position(Moment(times.len() as u64)),
            Self::Events(events) => events,
            Self::Asked(times) => times.duration_us(),
            Self::Piece(piece) => piece.axis.end,
        }
    }

    /// The last moment before any event at or after `time_us`; `None` when events have no times.
    pub(super) fn moment_before(self, time_us: i64) -> Option<Moment> {
        match self {
            Self::Time(times) => Some(Moment(times.partition_point(|&time| time < time_us) as u64)),
            Self::Asked(times) => times.before(time_us),
            Self::Events(_) | Self::Piece(_) => None,
        }
    }

    /// The moment after every event up to and at `time_us`; `None` when events have no times.
    pub(super) fn moment_after(self, time_us: i64) -> Option<Moment> {
        match self {
            Self::Time(times) => Some(Moment(times.partition_point(|&time| time <= time_us) as u64)),
            Self::Asked(times) => times.upto(time_us),
            Self::Events(_) | Self::Piece(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(times: &[i64]) -> Events {
        let mut events = Events::default();
        for &time_us in times {
            events.push(crate::model::Event {
                action: crate::model::Action::Snapshot,
                time_us,
                address: 0,
                size: 0,
                stream: 0,
                stack: crate::model::StackId::NONE,
            });
        }
        events
    }

    #[test]
    fn times_that_run_backwards_or_are_missing_or_equal_are_no_clock() {
        assert!(Clock::of(&events(&[5, 5, 9])).is_time());
        assert!(!Clock::of(&events(&[5, 9, 8])).is_time());
        assert!(!Clock::of(&events(&[NO_TIME, 8])).is_time());
        assert!(!Clock::of(&events(&[7, 7])).is_time());
        assert!(!Clock::of(&events(&[])).is_time());
    }

    #[test]
    fn a_picture_counts_events_where_one_pause_would_fill_it() {
        let steady: Vec<i64> = (0..100).collect();
        assert!(Clock::of_picture(&events(&steady)).0.is_time());
        let paused: Vec<i64> = (0..100).map(|n| if n < 10 { n } else { n + 500 }).collect();
        let paused = events(&paused);
        let (clock, pause) = Clock::of_picture(&paused);
        assert_eq!((clock.is_time(), clock.end(), pause), (false, 100, 501));
        assert!(Clock::of(&paused).is_time());
        assert!(Clock::of_picture(&events(&[0, 1, 500])).0.is_time(), "too few to matter");
    }

    #[test]
    fn positions_count_from_the_first_event() {
        let events = events(&[100, 110, 110, 150]);
        let clock = Clock::of(&events);
        let positions: Vec<u64> = (0..=4).map(|moment| clock.position(Moment(moment))).collect();
        assert_eq!((positions, clock.end()), (vec![0, 0, 10, 10, 50], 50));
        assert_eq!((clock.start_us(), Clock::Events(3).start_us()), (Some(100), None));
        assert_eq!(clock.moment_before(110), Some(Moment(1)));
        assert_eq!(clock.moment_after(110), Some(Moment(3)));
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let events = events(&[i64::MIN + 1, i64::MAX]);
        assert_eq!(Clock::of(&events).end(), u64::MAX - 1);
    }
}
