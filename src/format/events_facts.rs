//! Chunks of events: what their facts state of the columns behind them.
//!
//! Owns the counts by action and the range of times that stand uncompressed, so that counting a file unpacks
//! nothing, and holding them against the columns where these are decoded.

use crate::model::{Action, NO_TIME};

use super::cursor::{Cursor, Parse};
use super::packer::MapPacker;

/// Events of a chunk by action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ActionCounts {
    /// By the code of the action.
    pub(super) known: [u64; Action::ALL.len()],
    /// How many of [`Action::Other`] have a code that this version does not know.
    pub(super) unknown: u64,
}

impl ActionCounts {
    pub(super) fn of(actions: &[Action], unknown: u64) -> Self {
        // Neighbours are often equal; two tables spare them the wait for each other.
        let mut tables = [[0u32; Action::ALL.len()]; 2];
        for pair in actions.chunks(2) {
            for (table, &action) in tables.iter_mut().zip(pair) {
                table[action as usize] += 1;
            }
        }
        let known = std::array::from_fn(|code| tables.iter().map(|table| u64::from(table[code])).sum());
        Self { known, unknown }
    }

    /// Reads the fact: an array with the number of events at the place of their action's code.
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Parse<Self> {
        let mut counts = Self::default();
        for code in 0..cursor.array()? {
            let events = cursor.uint()?;
            let known = u8::try_from(code).ok().and_then(Action::from_code);
            let sum = &mut counts.known[known.unwrap_or(Action::Other) as usize];
            *sum = sum.saturating_add(events);
            if known.is_none() {
                counts.unknown = counts.unknown.saturating_add(events);
            }
        }
        Ok(counts)
    }

    /// Enters the fact. The zeros behind the last action that occurs are left out.
    pub(super) fn pack(&self, facts: &mut MapPacker) {
        let length = self.known.iter().rposition(|&events| events > 0).map_or(0, |last| last + 1);
        let packer = facts.key("actions");
        packer.array(length);
        for &events in &self.known[..length] {
            packer.uint(events);
        }
    }

    fn events(&self) -> u64 {
        self.known.iter().fold(0, |sum, &events| sum.saturating_add(events))
    }
}

/// What a chunk of events states of its columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stated {
    /// Since version 1.3.
    pub(super) actions: Option<ActionCounts>,
    /// Earliest time, if any event has one.
    pub(super) start_us: Option<i64>,
    /// Latest time.
    pub(super) end_us: Option<i64>,
}

impl Stated {
    /// Earliest and latest time, if both are stated.
    pub(super) fn times_us(&self) -> Option<(i64, i64)> {
        self.start_us.zip(self.end_us).filter(|&(start, end)| start != NO_TIME && end != NO_TIME)
    }

    /// The counts of a chunk of `rows` events, unless they are missing or of another number of events.
    pub(super) fn counts_of(&self, rows: usize) -> Option<ActionCounts> {
        self.actions.filter(|counts| counts.events() == rows as u64)
    }

    /// Whether nothing that is stated contradicts the columns. `unknown` of the actions have a code that is
    /// not known.
    pub(super) fn agrees(&self, actions: &[Action], times_us: &[i64], unknown: u64) -> bool {
        let Some(stated) = self.actions else {
            return self.times_us().is_none_or(|times| Some(times) == range_of(times_us));
        };
        // Whoever states the actions states the times too, if there are any.
        stated == ActionCounts::of(actions, unknown) && self.times_us() == range_of(times_us)
    }
}

/// Earliest and latest time.
pub(super) fn range_of(times_us: &[i64]) -> Option<(i64, i64)> {
    let (mut start, mut end) = (i64::MAX, NO_TIME);
    for &time in times_us {
        // `NO_TIME` is the lowest number.
        end = end.max(time);
        start = start.min(if time == NO_TIME { i64::MAX } else { time });
    }
    (end != NO_TIME).then_some((start, end))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::format::packer::Packer;

    #[test]
    fn counts_come_back_and_those_of_later_versions_count_as_other() {
        let actions = [Action::Alloc, Action::Alloc, Action::Oom, Action::Other, Action::Alloc];
        let counts = ActionCounts::of(&actions, 0);
        let mut facts = MapPacker::default();
        counts.pack(&mut facts);
        let bytes = facts.into_bytes();
        // A map of one, a key of seven letters.
        let again = ActionCounts::read(&mut Cursor::new(&bytes, 9)).unwrap();
        assert_eq!((again, again.events()), (counts, 5));
        let mut later = Packer::default();
        later.array(13);
        (0..13).for_each(|code| _ = later.uint(code));
        let later = ActionCounts::read(&mut Cursor::new(later.bytes(), 0)).unwrap();
        assert_eq!((later.known[10], later.unknown, later.events()), (10 + 11 + 12, 23, 78));
        let mut lie = Packer::default();
        lie.array(2).uint(u64::MAX).uint(u64::MAX);
        let lie = ActionCounts::read(&mut Cursor::new(lie.bytes(), 0)).unwrap();
        assert_eq!(lie.events(), u64::MAX);
    }

    #[test]
    fn what_is_stated_is_held_against_the_columns() {
        let actions = [Action::Alloc, Action::FreeCompleted];
        let counts = Some(ActionCounts::of(&actions, 0));
        let stated = Stated { actions: counts, start_us: Some(3), end_us: Some(9) };
        assert!(stated.agrees(&actions, &[9, 3], 0) && stated.counts_of(2).is_some());
        assert!(stated.counts_of(3).is_none());
        assert!(!stated.agrees(&actions, &[9, 2], 0) && !stated.agrees(&actions, &[NO_TIME; 2], 0));
        assert!(!stated.agrees(&[Action::Alloc; 2], &[9, 3], 0));
        assert!(Stated { start_us: None, ..stated }.agrees(&actions, &[NO_TIME; 2], 0));
        assert!(!Stated { start_us: None, ..stated }.agrees(&actions, &[NO_TIME, 3], 0));
        assert!(Stated::default().agrees(&actions, &[9, 3], 0), "older files state less");
    }
}
