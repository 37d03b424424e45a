//! Judging failed requests: one by one, and all of a recording.
//!
//! Owns what is known about a failure, and how much work many failures may cost. The order of the tests is
//! `verdict`'s.

use crate::findings::JudgedOom;
use crate::model::{DeviceTrace, PoolId, Trace};
use crate::rebuild::{History, Moment, OomEvent, State};
use crate::simulate::Conf;

use super::late::freed_within_call;
use super::refusal::least_refused;
use super::sums::{Asker, Sums};
use super::verdict::{self, Verdict};

/// What is known about a failed request.
#[derive(Clone, Copy, Debug)]
pub struct OomFacts<'a> {
    /// The recording.
    pub trace: &'a Trace,
    /// The device's part of it.
    pub device: &'a DeviceTrace,
    /// What happened.
    pub history: &'a History,
    /// Settings in force.
    pub conf: &'a Conf,
    /// The event.
    pub oom: &'a OomEvent,
    /// Memory of the device, when recorded.
    pub total_bytes: Option<u64>,
    /// The least that the process would have held had any of the failures been served for which the driver had
    /// room.
    pub least_refused_bytes: u64,
}

impl OomFacts<'_> {
    /// Pool of the request; the default pool when not recorded (before PyTorch 2.12).
    #[must_use]
    pub fn pool(&self) -> PoolId {
        self.trace.event_pool(self.device, self.oom.event as usize).unwrap_or_default()
    }

    pub(super) fn asker(&self) -> Asker<'_> {
        Asker { oom: self.oom, pool: self.pool(), conf: self.conf }
    }

    /// Whether everything held and live at the failure is known: from the beginning, or from the state at the
    /// end.
    pub(super) fn is_state_known(&self) -> bool {
        let from_the_start = self.history.from_the_start && !self.history.ranges.is_empty();
        self.device.segments.is_some() || from_the_start
    }
}

/// Says why a request failed. Without a `state` (that at the event's moment) only totals are compared.
#[must_use]
pub fn judge(facts: &OomFacts<'_>, state: Option<&State>) -> Verdict {
    let sums = match state {
        Some(state) => {
            let late = freed_within_call(facts.device, facts.history, facts.oom.event);
            Sums::of_state(facts.asker(), state, &late)
        }
        None => Sums::of_totals(facts.asker()),
    };
    verdict::decide(facts, sums)
}

/// Rows of allocations and segments that may be looked at for all failures together: a second's work.
const MOST_ROWS: usize = 20_000_000;
/// Failures whose blocks are looked at in any case.
const FEWEST_LOOKED_AT: usize = 4;

/// Says why each of `ooms` failed. Each look at the blocks costs a pass over all allocations; a recording with
/// very many failures gets it for the first and the last of them, and the others are judged by their totals.
#[must_use]
pub fn judge_all(
    trace: &Trace,
    device: &DeviceTrace,
    history: &History,
    total_bytes: Option<u64>,
    ooms: &[OomEvent],
) -> Vec<JudgedOom> {
    let conf = Conf::recorded(&trace.settings);
    let rows = history.allocations.len() + history.ranges.len();
    let looks = (MOST_ROWS / rows.max(1)).max(FEWEST_LOOKED_AT);
    let is_looked_at = |index: usize| index < looks.div_ceil(2) || ooms.len() - index <= looks / 2;
    let least_refused_bytes = least_refused(&conf, ooms);
    let judged = |(index, oom): (usize, &OomEvent)| {
        let state = is_looked_at(index).then(|| history.state_at(Moment(oom.event)));
        let facts = OomFacts { trace, device, history, conf: &conf, oom, total_bytes, least_refused_bytes };
        JudgedOom { oom: *oom, pool: facts.pool(), verdict: judge(&facts, state.as_ref()) }
    };
    ooms.iter().enumerate().map(judged).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::findings::VerdictKind;
    use crate::model::TraceBuilder;
    use crate::rebuild::rebuild;

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7f00_0000_0000;

    /// Looking at every block for every failure would be ten thousand million rows: hours in a debug build.
    #[test]
    fn a_hundred_thousand_failures_beside_a_hundred_thousand_blocks_are_judged_in_bounded_work() {
        const MANY: u64 = 100_000;
        let mut run = TraceBuilder::new().segment_alloc(A, MANY * MIB);
        for index in 0..MANY {
            run = run.alloc(A + index * MIB, MIB);
        }
        for _ in 0..MANY {
            run = run.oom(64 * MIB, MIB);
        }
        let trace = run.build();
        let history = rebuild(&trace, &trace.devices[0]);
        let judged = judge_all(&trace, &trace.devices[0], &history, None, &history.ooms);
        assert_eq!(judged.len() as u64, MANY);
        assert!(judged.iter().all(|oom| oom.verdict.kind == VerdictKind::Capacity));
        let looked_at = judged.iter().filter(|oom| oom.verdict.sums.is_looked_at).count();
        assert!((FEWEST_LOOKED_AT..=MOST_ROWS / MANY as usize + 1).contains(&looked_at), "{looked_at}");
        assert!(judged[0].verdict.sums.is_looked_at && judged.last().unwrap().verdict.sums.is_looked_at);
    }
}
