//! Which bytes a profile of stacks counts.
//!
//! Owns the choice and the words for it; the sums are `tables::stack_totals`.

use std::str::FromStr;

use crate::model::StackId;
use crate::rebuild::{History, Moment};
use crate::tables::{StackTotal, stack_totals};

/// The bytes that a profile spreads over its stacks: those of blocks, so that they add up to PyTorch's own figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Allocated when the allocated bytes peak.
    #[default]
    Peak,
    /// Of all allocations ever made, freed ones included.
    Total,
    /// Allocated after the last event.
    End,
    /// Allocated when the last request failed.
    Oom,
    /// Allocated after this event; events count from 0 on each device.
    Event(u64),
}

impl Profile {
    /// The moment that it shows: that of the peak for [`Profile::Total`], which is of no one moment. `None` where
    /// `history` has no such moment.
    #[must_use]
    pub fn moment(self, history: &History) -> Option<Moment> {
        match self {
            Self::Peak | Self::Total => Some(history.peaks.allocated.moment),
            Self::End => Some(Moment(history.events)),
            Self::Oom => history.ooms.last().map(|oom| Moment::after(oom.event)),
            Self::Event(event) => (event < history.events).then(|| Moment::after(event)),
        }
    }

    /// Its name beside a flame graph.
    #[must_use]
    pub fn title(self) -> String {
        match self {
            Self::Peak => "allocated bytes at their peak".to_owned(),
            Self::Total => "bytes of all allocations".to_owned(),
            Self::End => "allocated bytes at the end".to_owned(),
            Self::Oom => "allocated bytes at the last out-of-memory error".to_owned(),
            Self::Event(event) => format!("allocated bytes after event {event}"),
        }
    }

    /// Bytes of every stack that has any, by stack number, [`StackId::NONE`] last. `None` where `history` has no
    /// such moment.
    pub(super) fn weights(self, history: &History) -> Option<Vec<(StackId, u64)>> {
        let totals = stack_totals(history, self.moment(history)?);
        let bytes = |total: &StackTotal| match self {
            Self::Total => total.total_bytes,
            _ => total.live_bytes,
        };
        Some(totals.iter().map(|total| (total.stack, bytes(total))).filter(|&(_, bytes)| bytes > 0).collect())
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "peak" => Ok(Self::Peak),
            "total" => Ok(Self::Total),
            "end" => Ok(Self::End),
            "oom" => Ok(Self::Oom),
            number => number
                .parse()
                .map(Self::Event)
                .map_err(|_| "use peak, total, end, oom or the number of an event".to_owned()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;
    use crate::rebuild::rebuild;

    const A: u64 = 0x7000_0000_0000;

    fn sum(profile: Profile, history: &History) -> Option<u64> {
        profile.weights(history).map(|weights| weights.iter().map(|&(_, bytes)| bytes).sum())
    }

    #[test]
    fn each_choice_counts_its_bytes() {
        let trace = TraceBuilder::new()
            .segment_alloc(A, 2 << 20)
            .at("a.py", 1, "f")
            .alloc(A, 1024)
            .at("b.py", 2, "g")
            .alloc(A + 1024, 4096)
            .free(A + 1024, 4096)
            .oom(1 << 40, 0)
            .free(A, 1024)
            .build();
        let history = rebuild(&trace, &trace.devices[0]);
        assert_eq!(sum(Profile::Peak, &history), Some(5120));
        assert_eq!(sum(Profile::Total, &history), Some(5120));
        assert_eq!(sum(Profile::Oom, &history), Some(1024));
        assert_eq!(sum(Profile::End, &history), Some(0));
        assert_eq!(sum(Profile::Event(1), &history), Some(1024));
        assert_eq!(sum(Profile::Event(8), &history), None, "there is no such event");
        assert_eq!(sum(Profile::Oom, &History::default()), None);
        let stacks = |profile: Profile| profile.weights(&history).unwrap().len();
        assert_eq!(
            (stacks(Profile::Peak), stacks(Profile::Oom)),
            (2, 1),
            "stacks without bytes are left out"
        );
    }

    #[test]
    fn choices_are_typed_as_words_or_as_event_numbers() {
        assert_eq!("oom".parse(), Ok(Profile::Oom));
        assert_eq!("17".parse(), Ok(Profile::Event(17)));
        for odd in ["", "-1", "peaks", "1.5"] {
            assert!(odd.parse::<Profile>().is_err(), "{odd}");
        }
    }
}
