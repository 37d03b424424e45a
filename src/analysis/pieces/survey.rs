//! What has to be known of all events before the first piece can be analysed.
//!
//! Owns the rounds that only look: what was held and live before the first event, when events happened, whose code is
//! on the stacks.

use crate::driver::AllocatorEvents;
use crate::format::Recording;
use crate::model::DeviceId;
use crate::rebuild::{Carried, Prelude};
use crate::tables::{GroupBy, Grouping, Seen, Times};

use super::cut::Cutter;

/// Everything ready for the round that analyses.
pub(super) struct Survey {
    pub(super) carried: Carried,
    pub(super) times: Times,
    pub(super) grouping: Grouping,
    /// What the events say of the driver's memory, where its calls were recorded.
    pub(super) of_driver: AllocatorEvents,
}

impl Survey {
    /// Looks at all events of `device`, once or more often: again if something may have been live before them, again if
    /// sizes of that have to be learnt, or lines of modules.
    pub(super) fn of(
        recording: &mut Recording<'_>,
        device: DeviceId,
        by: GroupBy,
        piece_events: usize,
    ) -> Self {
        let (mut prelude, mut times) = (Prelude::default(), Times::new(recording.trace()));
        let mut seen = Seen::new(recording.trace());
        let (with_calls, mut of_driver) = (recording.trace().driver.is_some(), AllocatorEvents::default());
        recording.rewind(device);
        while let Some(events) = recording.next(device, piece_events) {
            prelude.take(&events);
            times.take(&events);
            seen.take(&events);
            if with_calls {
                of_driver.take(&events);
            }
        }
        let segments = recording.trace().device(device).and_then(|entry| entry.segments.clone());
        if prelude.must_look_again(segments.as_deref()) {
            recording.rewind(device);
            while let Some(events) = recording.next(device, piece_events) {
                prelude.take_again(&events);
            }
        }
        let mut carried = prelude.finish(segments.as_deref(), &recording.trace().settings);
        seen.take_stacks(&carried.stacks());
        let tells_modules = seen.tells_modules(recording.trace());
        if tells_modules || carried.uncertain().0 > 0 {
            seen = rehearse(recording, device, &seen, &mut carried, (tells_modules, piece_events));
        }
        let grouping = Grouping::of_seen(recording.trace(), seen, by);
        Self { carried, times, grouping, of_driver }
    }
}

/// Rebuilds all pieces until sizes are no more corrected, and adds up what modules allocate.
fn rehearse(
    recording: &mut Recording<'_>,
    device: DeviceId,
    seen: &Seen,
    carried: &mut Carried,
    (tells_modules, piece_events): (bool, usize),
) -> Seen {
    loop {
        let mut found = seen.clone();
        let mut cutter = Cutter::new(recording, device, piece_events);
        while let Some((piece, _)) = cutter.next(recording) {
            let history = carried.next(recording.trace(), &piece);
            if tells_modules {
                found.take_forward(&piece, &history);
            }
        }
        if !carried.corrects_itself() {
            return found;
        }
    }
}
