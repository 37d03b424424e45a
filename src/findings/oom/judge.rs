//! Judging failed requests: one by one, and all of a recording.
//!
//! Owns what is known about a failure, and how much work many failures may cost. The order of the tests is
//! `verdict`'s.

use crate::findings::JudgedOom;
use crate::model::{DeviceId, DeviceTrace, PoolId, Trace};
use crate::rebuild::{History, Moment, OomEvent, Peak};
use crate::simulate::Conf;

use super::late::freed_within_call;
use super::refusal::least_refused;
use super::sums::{Asker, Sums};
use super::verdict;

/// What is known about a failed request.
#[derive(Clone, Copy, Debug)]
pub struct OomFacts<'a> {
    /// Settings in force.
    pub conf: &'a Conf,
    /// The event.
    pub oom: &'a OomEvent,
    /// Memory of the device, when recorded.
    pub total_bytes: Option<u64>,
    /// The part of it that the process may use, when known.
    pub memory_fraction: Option<f64>,
    /// The most that was reserved in the whole recording.
    pub reserved_peak: Peak,
    /// Whether everything held and live at the failure is known: from the beginning, or from the state at the end.
    pub is_state_known: bool,
    /// The least that the process would have held had any of the failures been served for which the driver had
    /// room.
    pub least_refused_bytes: u64,
}

/// A failed request and what the allocator held then: all that has to be kept of its surroundings.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The event.
    pub oom: OomEvent,
    /// Pool of the request; the default pool when not recorded (before PyTorch 2.12).
    pub pool: PoolId,
    /// Where the bytes were.
    pub sums: Sums,
}

/// Rows of allocations and segments that may be looked at for all failures together: a second's work.
const MOST_ROWS: usize = 20_000_000;
/// Failures whose blocks are looked at in any case.
const FEWEST_LOOKED_AT: usize = 4;

/// What was held at each of `ooms`. Each look at the blocks costs a pass over all allocations; a recording with
/// very many failures gets it for the first and the last of them, of the others only totals are compared.
#[must_use]
pub fn failures(trace: &Trace, device: &DeviceTrace, history: &History, ooms: &[OomEvent]) -> Vec<Failure> {
    let conf = Conf::recorded(&trace.settings);
    let rows = history.allocations.len() + history.ranges.len();
    let looks = (MOST_ROWS / rows.max(1)).max(FEWEST_LOOKED_AT);
    let is_looked_at = |index: usize| index < looks.div_ceil(2) || ooms.len() - index <= looks / 2;
    let failure = |(index, oom): (usize, &OomEvent)| {
        let pool = trace.event_pool(device, oom.event as usize).unwrap_or_default();
        let asker = Asker { oom, pool, conf: &conf };
        let sums = if is_looked_at(index) {
            let late = freed_within_call(device, history, oom.event);
            Sums::of_state(asker, &history.state_at(Moment(oom.event)), &late)
        } else {
            Sums::of_totals(asker)
        };
        Failure { oom: *oom, pool, sums }
    };
    ooms.iter().enumerate().map(failure).collect()
}

/// Whether everything held and live at a failure is known; see [`OomFacts::is_state_known`].
#[must_use]
pub fn is_state_known(device: &DeviceTrace, history: &History) -> bool {
    let from_the_start = history.from_the_start && !history.ranges.is_empty();
    device.segments.is_some() || device.excerpt.is_some() || from_the_start
}

/// Says why each of `failures`, all those of a recording, happened.
#[must_use]
pub fn judge(
    trace: &Trace,
    device: DeviceId,
    failures: Vec<Failure>,
    (reserved_peak, is_state_known): (Peak, bool),
    total_bytes: Option<u64>,
) -> Vec<JudgedOom> {
    let conf = Conf::recorded(&trace.settings);
    let memory_fraction = trace.memory_fraction(device);
    let ooms: Vec<OomEvent> = failures.iter().map(|failure| failure.oom).collect();
    let least_refused_bytes = least_refused(&conf, &ooms);
    let judged = |Failure { oom, pool, sums }: Failure| {
        let facts = OomFacts {
            conf: &conf,
            oom: &oom,
            total_bytes,
            memory_fraction,
            reserved_peak,
            is_state_known,
            least_refused_bytes,
        };
        JudgedOom { oom, pool, verdict: verdict::decide(&facts, sums) }
    };
    failures.into_iter().map(judged).collect()
}

/// Says why each of `ooms` failed.
#[must_use]
pub fn judge_all(
    trace: &Trace,
    device: &DeviceTrace,
    history: &History,
    total_bytes: Option<u64>,
    ooms: &[OomEvent],
) -> Vec<JudgedOom> {
    let known = (history.peaks.reserved, is_state_known(device, history));
    judge(trace, device.device, failures(trace, device, history, ooms), known, total_bytes)
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
