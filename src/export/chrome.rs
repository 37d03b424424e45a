//! Chrome's trace-event JSON: the four counters of every device over time.
//!
//! Owns the keys and the axis. Counters are `C` events, written where their value changes; failed requests and
//! peaks are instants, steps are slices. What is left out of a long recording is said under `otherData`; no peak
//! ever is. Names are written as the trace has them: JSON is data.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::error::Result;
use crate::model::Trace;
use crate::rebuild::{Moment, Peak};
use crate::tables::{self, Clock, StepRow};

use super::{DeviceHistory, EXPORTER};

/// Columns that a recording is cut into; of each, every counter keeps four points.
const COLUMNS: usize = 4000;

/// Counters in the order in which they are written.
const COUNTERS: [&str; 4] = ["reserved", "active", "allocated", "requested"];

/// Writes the counters of `devices`, each a process of its own.
///
/// # Errors
/// Those of `output`.
pub fn write_chrome(trace: &Trace, devices: &[DeviceHistory], output: &mut dyn Write) -> Result<()> {
    let axis = Axis::of(devices);
    output.write_all(b"{\"displayTimeUnit\":\"ms\",\n\"otherData\":")?;
    serde_json::to_writer(&mut *output, &said(axis)).map_err(io::Error::from)?;
    output.write_all(b",\n\"traceEvents\":[")?;
    let mut events = Events { output, is_first: true };
    for device in devices {
        let (clock, pid) = (Clock::of(&device.device.events), u64::from(device.device.device.0) + 1);
        Process { trace, device, clock, axis, pid }.write(&mut events)?;
    }
    output.write_all(b"]}\n")?;
    Ok(())
}

/// Where moments lie: one axis for all devices.
#[derive(Clone, Copy)]
enum Axis {
    /// Microseconds since this time, in Unix microseconds.
    Time(i64),
    /// The number of events applied.
    Events,
}

impl Axis {
    /// Time, where every device that has events has usable times.
    fn of(devices: &[DeviceHistory]) -> Self {
        let recorded = devices.iter().filter(|device| !device.device.events.is_empty());
        let starts: Option<Vec<i64>> =
            recorded.map(|device| Clock::of(&device.device.events).start_us()).collect();
        starts.and_then(|starts| starts.into_iter().min()).map_or(Self::Events, Self::Time)
    }

    /// Position of `moment`; the moment before the first event lies at the first event.
    fn position(self, clock: Clock, moment: Moment) -> u64 {
        match (self, clock.start_us()) {
            (Self::Time(begin), Some(start)) => start.abs_diff(begin).saturating_add(clock.position(moment)),
            (Self::Time(_), None) => 0,
            (Self::Events, _) => moment.0,
        }
    }
}

/// What a reader must know about the figures.
fn said(axis: Axis) -> Value {
    let (axis, begin) = match axis {
        Axis::Time(begin) => ("microseconds since the first event", Some(begin)),
        Axis::Events => ("events have no usable times: a microsecond stands for one event", None),
    };
    json!({
        "exporter": EXPORTER,
        "axis": axis,
        "begin_unix_us": begin,
        "kept": format!("a recording is cut into {COLUMNS} runs of equally many events; of each run every counter \
            keeps its first, last, lowest and highest value, so all of a short recording, and every peak"),
        "bytes": "allocated, active and reserved count blocks, as torch.cuda.memory_stats() does; requested \
            counts what was asked for",
    })
}

/// The events of one device.
struct Process<'a> {
    trace: &'a Trace,
    device: &'a DeviceHistory<'a>,
    clock: Clock<'a>,
    axis: Axis,
    pid: u64,
}

impl Process<'_> {
    fn write(&self, events: &mut Events) -> io::Result<()> {
        self.names(events)?;
        self.counters(events)?;
        self.instants(events)?;
        let steps = tables::steps(self.trace, self.device.device, &self.device.history);
        for step in &steps.rows {
            self.step(step, events)?;
        }
        Ok(())
    }

    fn names(&self, events: &mut Events) -> io::Result<()> {
        let id = self.device.device.device;
        let facts = self.trace.process.devices.iter().find(|facts| facts.device == id);
        let name = match facts.filter(|facts| !facts.name.is_empty()) {
            Some(facts) => format!("{} ({})", self.device.name(), facts.name),
            None => self.device.name(),
        };
        let pid = self.pid;
        events.write(&json!({ "ph": "M", "pid": pid, "name": "process_name", "args": { "name": name } }))?;
        events.write(
            &json!({ "ph": "M", "pid": pid, "name": "process_sort_index", "args": { "sort_index": pid } }),
        )?;
        for (tid, name) in [(0, "peaks and failed requests"), (1, "steps")] {
            events.write(
                &json!({ "ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": { "name": name } }),
            )?;
        }
        Ok(())
    }

    /// A counter keeps its value until it is told anew.
    fn counters(&self, events: &mut Events) -> io::Result<()> {
        let curves = tables::counter_curves(&self.device.history, COLUMNS);
        let curves = [curves.reserved, curves.active, curves.allocated, curves.requested];
        for (name, curve) in COUNTERS.iter().zip(curves) {
            for point in curve {
                let ts = self.axis.position(self.clock, point.moment);
                let args = json!({ "bytes": point.bytes });
                events.write(&json!({ "ph": "C", "pid": self.pid, "ts": ts, "name": name, "args": args }))?;
            }
        }
        Ok(())
    }

    fn instants(&self, events: &mut Events) -> io::Result<()> {
        let history = &self.device.history;
        let peaks = &history.peaks;
        let peaks: [Peak; COUNTERS.len()] = [peaks.reserved, peaks.active, peaks.allocated, peaks.requested];
        for (name, peak) in COUNTERS.iter().zip(peaks).filter(|(_, peak)| peak.bytes > 0) {
            let what = json!({ "bytes": peak.bytes, "event": peak.moment.event() });
            self.instant(&format!("peak of {name} bytes"), peak.moment, &what, events)?;
        }
        for oom in &history.ooms {
            let what = json!({
                "event": oom.event,
                "asked_for_bytes": oom.size,
                "device_free_bytes": oom.device_free_bytes,
                "allocated_bytes": oom.usage.allocated_bytes,
                "reserved_bytes": oom.usage.reserved_bytes,
            });
            self.instant("CUDA out of memory", Moment::after(oom.event), &what, events)?;
        }
        Ok(())
    }

    fn instant(&self, name: &str, moment: Moment, what: &Value, events: &mut Events) -> io::Result<()> {
        let ts = self.axis.position(self.clock, moment);
        events.write(
            &json!({ "ph": "i", "s": "p", "pid": self.pid, "tid": 0, "ts": ts, "name": name, "args": what }),
        )
    }

    /// From its first event to its last; a step without events has no length.
    fn step(&self, step: &StepRow, events: &mut Events) -> io::Result<()> {
        let end = self.axis.position(self.clock, step.end);
        let begin = self.axis.position(self.clock, Moment::after(step.begin.0)).min(end);
        let (peak, growth) = (step.peak_allocated.bytes, step.growth_bytes);
        events.write(&json!({
            "ph": "X", "pid": self.pid, "tid": 1, "ts": begin, "dur": end - begin, "name": step.name,
            "args": { "peak_allocated_bytes": peak, "growth_bytes": growth },
        }))
    }
}

/// The list of trace events, written one by one.
struct Events<'a> {
    output: &'a mut dyn Write,
    is_first: bool,
}

impl Events<'_> {
    fn write(&mut self, event: &Value) -> io::Result<()> {
        self.output.write_all(if self.is_first { b"\n" } else { b",\n" })?;
        self.is_first = false;
        serde_json::to_writer(&mut *self.output, event).map_err(io::Error::from)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::{DeviceFacts, DeviceId, Mark, MarkKind, NO_TIME, TraceBuilder};
    use crate::rebuild::rebuild;

    const A: u64 = 0x7000_0000_0000;
    const HOSTILE: &str = "</script>\"\u{1b}[31m\u{202e}\n";

    fn written(trace: &Trace) -> Value {
        let devices: Vec<_> = trace
            .devices
            .iter()
            .map(|device| DeviceHistory { device, history: rebuild(trace, device) })
            .collect();
        let mut out = Vec::new();
        write_chrome(trace, &devices, &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    /// Events at 1,000,000 us and every 10 us from there.
    fn trace() -> Trace {
        let mut trace = TraceBuilder::new()
            .segment_alloc(A, 2 << 20)
            .alloc(A, 1000)
            .alloc(A + 1024, 4096)
            .oom(1 << 40, 77)
            .free(A + 1024, 4096)
            .build();
        let mark =
            |name: &str, time_us| Mark { kind: MarkKind::Step, name: name.to_owned(), time_us, begins: None };
        trace.marks = vec![mark(HOSTILE, 1_000_000), mark("1", 1_000_020)];
        trace.process.devices =
            vec![DeviceFacts { device: DeviceId(0), name: HOSTILE.to_owned(), total_bytes: None }];
        trace
    }

    fn of_kind(file: &Value, ph: &str, name: Option<&str>) -> Vec<Value> {
        let events = file["traceEvents"].as_array().unwrap().iter();
        events
            .filter(|event| event["ph"] == ph && name.is_none_or(|name| event["name"] == name))
            .cloned()
            .collect()
    }

    fn curve(file: &Value, name: &str) -> Vec<(u64, u64)> {
        let point = |event: &Value| (event["ts"].as_u64().unwrap(), event["args"]["bytes"].as_u64().unwrap());
        of_kind(file, "C", Some(name)).iter().map(point).collect()
    }

    #[test]
    fn counters_are_told_where_they_change() {
        let file = written(&trace());
        assert_eq!(curve(&file, "allocated"), [(0, 0), (10, 1024), (20, 5120), (40, 1024)]);
        assert_eq!(curve(&file, "active"), [(0, 0), (10, 1024), (20, 5120), (50, 1024)]);
        assert_eq!(curve(&file, "requested"), [(0, 0), (10, 1000), (20, 5096), (50, 1000)]);
        assert_eq!(curve(&file, "reserved"), [(0, 0), (0, 2 << 20)]);
        assert_eq!(curve(&file, "active").len(), 4, "a value that stays is not told again");
        assert_eq!(file["otherData"]["begin_unix_us"], 1_000_000);
    }

    #[test]
    fn failed_requests_peaks_and_steps_are_marked() {
        let file = written(&trace());
        let oom = &of_kind(&file, "i", Some("CUDA out of memory"))[0];
        assert_eq!((&oom["ts"], &oom["args"]["device_free_bytes"]), (&json!(30), &json!(77)));
        let peak = &of_kind(&file, "i", Some("peak of allocated bytes"))[0];
        assert_eq!((&peak["ts"], &peak["args"]["bytes"]), (&json!(20), &json!(5120)));
        let steps = of_kind(&file, "X", None);
        let spans: Vec<_> = steps.iter().map(|step| (&step["name"], &step["ts"], &step["dur"])).collect();
        assert_eq!(spans[0], (&json!(HOSTILE), &json!(0), &json!(10)));
        assert_eq!(
            spans[1],
            (&json!("1"), &json!(20), &json!(30)),
            "steps last from their first event to their last"
        );
        let process = &of_kind(&file, "M", Some("process_name"))[0];
        assert_eq!(process["args"]["name"], format!("device 0 ({HOSTILE})"));
    }

    #[test]
    fn without_times_events_are_counted_and_that_is_said() {
        let mut trace = trace();
        trace.devices[0].events.times_us.fill(NO_TIME);
        let file = written(&trace);
        assert_eq!(curve(&file, "allocated"), [(0, 0), (2, 1024), (3, 5120), (5, 1024)]);
        assert_eq!(file["otherData"]["begin_unix_us"], Value::Null);
        assert!(file["otherData"]["axis"].as_str().unwrap().contains("no usable times"));
    }

    #[test]
    fn devices_share_one_axis() {
        let late = TraceBuilder::new().segment_alloc(A, 2 << 20).alloc(A, 512);
        let mut trace = late.device(2).segment_alloc(A, 2 << 20).alloc(A, 512).free(A, 512).build();
        let file = written(&trace);
        let last = of_kind(&file, "C", Some("allocated")).pop().unwrap();
        assert_eq!((&last["pid"], &last["ts"]), (&json!(3), &json!(40)));
        trace.devices[1].events.times_us.fill(NO_TIME);
        let first_alloc = curve(&written(&trace), "allocated")[1];
        assert_eq!(first_alloc, (2, 512), "one device without times makes all count events");
    }
}
