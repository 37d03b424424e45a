//! Every call is in the trace, exactly.

use std::collections::BTreeMap;

use crate::support::{Run, quietly};
use crate::trace::Row;

/// Thread, call, result, address, bytes, handle: what the program says on its own.
type Said = [u64; 6];

fn said(stdout: &[u8]) -> Vec<Said> {
    let line = |line: &str| {
        let words: Vec<u64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
        words.try_into().expect("six numbers")
    };
    std::str::from_utf8(stdout).expect("text").lines().map(line).collect()
}

fn of(row: &Row) -> Said {
    ["thread", "call", "result", "address", "bytes", "handle"].map(|name| row[name])
}

#[test]
fn every_kind_of_call_is_recorded_as_it_was_made() {
    let run = Run::new();
    let output = quietly(run.program("all"));
    let trace = run.trace();
    let rows = trace.ordered();
    let found: Vec<Said> = rows.iter().map(|row| of(row)).collect();
    assert_eq!(found, said(&output.stdout));
    assert_eq!(trace.trailer.as_ref().expect("a trailer")["clean"].as_bool(), Some(true));
    let one = |call: u64| rows.iter().find(|row| row["call"] == call).expect("the call");
    // The first call has no context yet, the others that of device 0; physical memory is where it was asked for.
    assert_eq!((one(23)["context"], one(23)["device"]), (0, 0));
    assert_eq!((one(1)["context"], one(1)["device"]), (0x1000, 0));
    assert_eq!((one(10)["device"], one(16)["device"]), (1, 1));
    assert_eq!((one(3)["flags"], one(4)["flags"]), (1, 3));
    let streams: Vec<u64> = rows.iter().filter(|row| row["call"] == 14).map(|row| row["stream"]).collect();
    assert_eq!(streams, [0x55, 2]);
    let depths: Vec<u64> =
        rows.iter().filter(|row| row["bytes"] == 3 * 1024).map(|row| row["depth"]).collect();
    assert_eq!(depths, [1, 0]);
    assert_eq!(rows.iter().filter(|row| row["depth"] > 0).count(), 1);
    let driver = trace.driver();
    assert_eq!((driver["hook"].as_str(), driver["cupti_version"].as_u64()), (Some("cupti"), Some(130_000)));
}

#[test]
fn calls_of_many_threads_are_all_there_and_in_an_order_that_can_be() {
    let run = Run::new();
    let mut command = run.program("threads");
    command.env("STANDIN_SLOW_FREE", "1");
    let output = quietly(command);
    let trace = run.trace();
    let rows = trace.ordered();
    let by_thread = |calls: Vec<Said>| {
        let mut threads: BTreeMap<u64, Vec<Said>> = BTreeMap::new();
        for call in calls {
            threads.entry(call[0]).or_default().push(call);
        }
        threads
    };
    let found = by_thread(rows.iter().map(|row| of(row)).collect());
    assert_eq!(found.len(), 7);
    assert_eq!(found, by_thread(said(&output.stdout)));
    // An address is given out only while it is free, and freed only while it is out: over all threads.
    let mut live = BTreeMap::new();
    let mut reused = 0;
    let mut ever = std::collections::BTreeSet::new();
    for row in rows {
        match row["call"] {
            1 => {
                assert_eq!(live.insert(row["address"], row["order"]), None, "{row:?}");
                reused += u32::from(!ever.insert(row["address"]));
                assert_eq!(row["device"] + 0x1000, row["context"]);
            }
            2 => assert!(live.remove(&row["address"]).is_some(), "{row:?}"),
            _ => {}
        }
    }
    assert!(live.is_empty() && reused > 1000, "{reused}");
}
