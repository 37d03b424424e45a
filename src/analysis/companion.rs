//! Two files of one run: the allocator's events, and the driver's calls.
//!
//! Owns putting the second into the first. Which files belong together by name is the caller's concern; here the process
//! decides.

use rustc_hash::FxHashMap;

use crate::model::{Frame, MarkKind, StackId, Trace};

/// Puts what `calls` recorded into `trace`. `false`, and nothing changed: it is not of the same process, or has no driver
/// calls.
#[must_use]
pub fn join_calls(trace: &mut Trace, calls: Trace) -> bool {
    let has_the_same_id = trace.process.pid.is_some() && trace.process.pid == calls.process.pid;
    let is_of_the_same = has_the_same_id && !is_older(&calls, trace);
    if !is_of_the_same || calls.driver.is_none() || trace.driver.is_some() {
        return false;
    }
    let Trace { strings, frames, stacks, driver, process, samples, marks, warnings, .. } = calls;
    let Some(mut layer) = driver else { return false };
    let mut known: FxHashMap<StackId, StackId> = FxHashMap::default();
    for row in &mut layer.rows {
        row.python = *known.entry(row.python).or_insert_with(|| {
            let ids = stacks.get(row.python).iter().map(|&id| {
                let frame = frames.get(id);
                let (function, file) = (strings.get(frame.function), strings.get(frame.file));
                let (function, file) = (trace.strings.intern(function), trace.strings.intern(file));
                trace.frames.intern(Frame { function, file, line: frame.line })
            });
            let ids: Vec<_> = ids.collect();
            trace.stacks.intern(&ids)
        });
    }
    trace.driver = Some(layer);
    trace.samples.extend(samples);
    if let Some(facts) = process.other.get("driver") {
        trace.process.other.insert("driver".to_owned(), facts.clone());
    }
    // What the emitter says of itself is about events; of calls it is said apart.
    trace.warnings.add_many("lost-driver-calls", process.lost_events, || {
        "the recorder of driver calls lost some and says so".to_owned()
    });
    for mark in marks.into_iter().filter(|mark| mark.kind == MarkKind::Fault) {
        trace.warnings.add_about("driver-recorder-fault", &mark.name.clone(), 1, || {
            format!("the recorder of driver calls: {}", mark.name)
        });
    }
    // A fault of that file is none of the allocator's events.
    for warning in warnings.iter() {
        trace.warnings.add_about("driver-file", warning.kind, warning.count, || {
            format!("in the file with the driver's calls: {}", warning.text)
        });
    }
    true
}

/// Whether all calls were made before the recording of events began: in containers processes have the same few ids, and the
/// file may be left from an earlier run.
fn is_older(calls: &Trace, trace: &Trace) -> bool {
    let began = trace.process.other.get("started_us").and_then(serde_json::Value::as_i64);
    let last = calls.driver.as_ref().and_then(|layer| layer.rows.iter().map(|row| row.time_us).max());
    matches!((began, last), (Some(began), Some(last)) if last < began)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::driver::samples::recorded;
    use crate::model::{Mark, Sample, TraceBuilder};

    fn emitted(pid: Option<u64>) -> Trace {
        let mut trace = TraceBuilder::new().at("train.py", 3, "step").segment_alloc(1 << 30, 2 << 20).build();
        trace.process.pid = pid;
        trace
    }

    fn with_python() -> Trace {
        let mut calls = recorded("torch");
        let (function, file) = (calls.strings.intern("grow"), calls.strings.intern("job.py"));
        let frame = calls.frames.intern(Frame { function, file, line: 7 });
        let stack = calls.stacks.intern(&[frame]);
        calls.driver.as_mut().unwrap().rows[3].python = stack;
        calls.samples.push(Sample { driver_calls: Some(2), ..Sample::default() });
        calls.process.lost_events = 5;
        calls.warnings.add("truncated", || "no trailer".to_owned());
        calls.marks.push(Mark {
            kind: MarkKind::Fault,
            name: "full disk".to_owned(),
            time_us: 1,
            begins: None,
        });
        calls
    }

    #[test]
    fn calls_of_the_same_process_come_in_with_their_python_stacks() {
        let calls = with_python();
        let mut trace = emitted(calls.process.pid);
        assert!(join_calls(&mut trace, calls.clone()));
        let layer = trace.driver.as_ref().unwrap();
        assert_eq!(layer.rows.len(), 422);
        let frame = trace.frames.get(trace.stacks.get(layer.rows[3].python)[0]);
        assert_eq!((trace.strings.get(frame.file), frame.line), ("job.py", 7));
        assert_eq!(layer.rows[4].python, StackId::NONE);
        assert_eq!(layer.native, calls.driver.unwrap().native);
        assert_eq!(trace.samples.len(), 1);
        assert!(trace.process.other.contains_key("driver"));
        assert_eq!(
            (trace.warnings.count("lost-driver-calls"), trace.warnings.count("driver-recorder-fault")),
            (5, 1)
        );
    }

    #[test]
    fn another_process_is_left_alone() {
        for pid in [None, Some(1)] {
            let mut trace = emitted(pid);
            assert!(!join_calls(&mut trace, with_python()));
            assert!(trace.driver.is_none() && trace.samples.is_empty());
        }
        let mut trace = emitted(Some(7));
        assert!(!join_calls(&mut trace, emitted(Some(7))), "no calls");
        let calls = with_python();
        let last = calls.driver.as_ref().unwrap().rows.last().unwrap().time_us;
        for (started, joined) in [(last + 1, false), (last, true)] {
            let mut trace = emitted(calls.process.pid);
            trace.process.other.insert("started_us".to_owned(), started.into());
            assert_eq!(join_calls(&mut trace, calls.clone()), joined, "left from an earlier run");
        }
    }
}
