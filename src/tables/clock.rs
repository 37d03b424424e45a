//! Relates moments to time, where a recording allows it.
//!
//! Owns the decision whether a device's events have usable times. Does not own steps, pictures or exported
//! timelines, which all stand on it.

use crate::model::{Events, NO_TIME};
use crate::rebuild::Moment;

/// How positions along a recording are measured.
#[derive(Clone, Copy, Debug)]
pub enum Clock<'a> {
    /// Every event has a time and times never run backwards; microseconds since the first event.
    Time(&'a [i64]),
    /// Number of events applied.
    Events(u64),
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

    /// Whether positions are times.
    #[must_use]
    pub fn is_time(self) -> bool {
        matches!(self, Self::Time(_))
    }

    /// Unix time of the first event in microseconds; `None` when events have no usable times.
    #[must_use]
    pub fn start_us(self) -> Option<i64> {
        let Self::Time(times) = self else { return None };
        times.first().copied()
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
        }
    }

    /// Position of the last moment.
    #[must_use]
    pub fn end(self) -> u64 {
        match self {
            Self::Time(times) => self.position(Moment(times.len() as u64)),
            Self::Events(events) => events,
        }
    }

    /// The last moment before any event at or after `time_us`; `None` when events have no times.
    pub(super) fn moment_before(self, time_us: i64) -> Option<Moment> {
        let Self::Time(times) = self else { return None };
        Some(Moment(times.partition_point(|&time| time < time_us) as u64))
    }

    /// The moment after every event up to and at `time_us`; `None` when events have no times.
    pub(super) fn moment_after(self, time_us: i64) -> Option<Moment> {
        let Self::Time(times) = self else { return None };
        Some(Moment(times.partition_point(|&time| time <= time_us) as u64))
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
