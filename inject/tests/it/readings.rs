//! What NVML says lies between the calls, as it was said.

use std::collections::BTreeMap;

use rmpv::Value;

use crate::support::{Run, quietly};
use crate::trace::Trace;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// Runs a program with this `STANDIN_NVML`.
fn recorded(what: &str, nvml: &str) -> Trace {
    let run = Run::new();
    let mut command = run.program(what);
    command.env("STANDIN_NVML", nvml);
    quietly(command);
    run.trace()
}

/// Samples of one device.
fn of(trace: &Trace, device: u64) -> Vec<&Value> {
    trace.samples.iter().filter(|sample| sample["device"].as_u64() == Some(device)).collect()
}

/// Bytes that the process holds of a device by the calls up to `order`.
fn held(trace: &Trace, device: u64, order: u64) -> u64 {
    let mut held = BTreeMap::new();
    for row in trace.ordered().into_iter().filter(|row| row["order"] <= order && row["result"] == 0) {
        match row["call"] {
            1 => _ = held.insert(row["address"], (row["device"], row["bytes"])),
            2 => _ = held.remove(&row["address"]),
            _ => {}
        }
    }
    held.values().filter(|taking| taking.0 == device).map(|taking| taking.1).sum()
}

fn is_stable(sample: &Value) -> bool {
    assert!(sample["unstable"].is_nil() || sample["unstable"].as_bool() == Some(true));
    sample["unstable"].is_nil()
}

/// Stable readings must say what the calls before them have come to.
fn assert_figures(trace: &Trace, device: u64) {
    let samples = of(trace, device);
    let stable: Vec<&&Value> = samples.iter().filter(|sample| is_stable(sample)).collect();
    assert!(!stable.is_empty(), "{samples:?}");
    for sample in stable {
        let figure = |key: &str| sample[key].as_u64();
        let held = held(trace, device, figure("driver_calls").expect("a number"));
        // What the driver keeps for itself is no part of it.
        assert_eq!(figure("total_bytes"), Some((80 + device) * GIB - 600 * MIB));
        assert_eq!(figure("free_bytes"), Some((79 + device) * GIB - 600 * MIB - held), "{sample}");
        assert_eq!(figure("process_bytes"), Some((500 + device) * MIB + held), "{sample}");
    }
}

#[test]
fn readings_are_those_of_the_device_and_stand_between_the_calls() {
    let trace = recorded("two", "");
    assert_eq!(trace.driver()["readings"].as_str(), Some("nvml"));
    let (first, second) = (of(&trace, 0), of(&trace, 1));
    assert_figures(&trace, 0);
    assert_figures(&trace, 1);
    let calls = |samples: &[&Value]| -> Vec<u64> {
        samples.iter().map(|sample| sample["driver_calls"].as_u64().expect("a number")).collect()
    };
    // Rows: context, two allocations, context, allocation, free. A reading at each context before more is taken, one
    // after each change, one at the end; further ones only where the machine was slow.
    let (first, second) = (calls(&first), calls(&second));
    assert!(first.is_sorted() && second.is_sorted());
    assert_eq!((first[0], second[0]), (1, 4), "{first:?} {second:?}");
    assert!([2, 3].iter().all(|call| first.contains(call)), "{first:?}");
    assert_eq!((first.last(), second.last()), (Some(&6), Some(&6)));
    assert!((5..=8).contains(&first.len()) && (2..=5).contains(&second.len()), "{first:?} {second:?}");
    let time_of = |order: u64| trace.ordered()[order as usize - 1]["time"];
    for sample in of(&trace, 0) {
        let (time, calls) = (sample["time_us"].as_u64(), sample["driver_calls"].as_u64().expect("a number"));
        assert!(time >= Some(time_of(calls)) && (calls == 6 || time <= Some(time_of(calls + 1))));
    }
}

#[test]
fn a_short_program_is_read_at_its_end() {
    for nvml in ["", "by-bus", "many"] {
        let trace = recorded("one", nvml);
        assert_figures(&trace, 0);
        assert_eq!(of(&trace, 0).last().expect("a sample")["driver_calls"].as_u64(), Some(2), "{nvml}");
    }
}

#[test]
fn no_reading_that_counts_as_stable_has_figures_of_another_moment() {
    let trace = recorded("bursts", "slow");
    assert_figures(&trace, 0);
    let samples = of(&trace, 0);
    let stable: Vec<u64> = samples
        .iter()
        .filter(|sample| is_stable(sample))
        .map(|sample| sample["driver_calls"].as_u64().expect("a number"))
        .collect();
    assert!(stable.windows(2).any(|pair| pair[1] - pair[0] > 30), "{samples:?}");
    assert_eq!(stable.last(), trace.ordered().last().map(|row| &row["order"]));
    // Allocations of a burst are closer together than a figure takes; rests are as long as a few figures.
    assert!(samples.iter().any(|sample| !is_stable(sample)), "{samples:?}");
    // The context alone was read neither before nor after it was, if at all.
    assert!(is_stable(samples[0]) || samples[0]["driver_calls"].as_u64() > Some(1));
}

#[test]
fn figures_that_are_not_given_are_left_out() {
    let trace = recorded("one", "silent");
    assert!(!trace.samples.is_empty());
    for sample in &trace.samples {
        assert!(sample["process_bytes"].is_nil() && sample["free_bytes"].as_u64() <= Some(79 * GIB));
    }
}

#[test]
fn older_drivers_count_what_they_keep_for_themselves_as_used() {
    let trace = recorded("one", "old");
    assert!(!trace.samples.is_empty());
    for sample in &trace.samples {
        let figure = |key: &str| sample[key].as_u64().expect("a figure");
        assert_eq!(figure("total_bytes"), 80 * GIB);
        assert_eq!((figure("total_bytes") - figure("free_bytes")) / MIB, 1024 + 600);
    }
}

#[test]
fn without_nvml_there_are_no_readings_and_the_file_says_why() {
    let trace = recorded("one", "fails");
    assert!(trace.samples.is_empty() && trace.rows.len() == 2);
    assert_eq!(trace.driver()["readings"].as_str(), Some("nvmlInit_v2 gives error 999"));
    assert_eq!(trace.trailer.as_ref().expect("a trailer")["clean"].as_bool(), Some(true));
}

#[test]
fn many_calls_are_few_readings() {
    let run = Run::new();
    let start = std::time::Instant::now();
    quietly(run.program("threads"));
    let most = start.elapsed().as_millis() / 200 + 4;
    let trace = run.trace();
    assert!(
        trace.rows.len() > 3000 && (of(&trace, 0).len() as u128) <= most,
        "{} {most}",
        trace.samples.len()
    );
}

#[test]
fn a_forked_child_whose_parent_was_read_is_not() {
    let run = Run::new();
    let output = quietly(run.program("fork-late"));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let child = stderr.trim().strip_prefix("child ").expect("the child's id").to_owned();
    let trace = Trace::read(&run.path(&format!("t.{child}.msgpack")));
    assert!(trace.samples.is_empty() && !run.trace().samples.is_empty());
    assert_eq!(trace.driver()["readings"].as_str(), Some("NVML was in use before the process was forked"));
}
