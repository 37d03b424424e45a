//! By CUPTI, by interposed calls, or not at all: and the file says which.

use crate::support::{Run, library, quietly};
use crate::trace::Trace;

fn codes(trace: &Trace) -> Vec<u64> {
    trace.ordered().iter().map(|row| row["call"]).collect()
}

#[test]
fn interposed_calls_stay_out_of_it_while_cupti_works() {
    let run = Run::new();
    let mut command = run.program("one");
    let preload = library("memlab_preload");
    command.env("CUDA_INJECTION64_PATH", &preload).env("LD_PRELOAD", &preload);
    quietly(command);
    assert_eq!(codes(&run.trace()), [23, 1]);
    assert_eq!(run.trace().driver()["hook"].as_str(), Some("cupti"));
}

#[test]
fn without_cupti_interposed_calls_are_recorded() {
    let by_cupti = Run::new();
    quietly(by_cupti.program("all"));
    let run = Run::new();
    let mut command = run.program("all");
    let preload = library("memlab_preload");
    command
        .env("CUDA_INJECTION64_PATH", &preload)
        .env("LD_PRELOAD", &preload)
        .env("MEMLAB_CUPTI", "/nowhere");
    let output = command.output().expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr.matches("memlab:").count(), 1, "{stderr}");
    let trace = run.trace();
    assert_eq!(trace.driver()["hook"].as_str(), Some("preload"));
    // Not interposed: contexts, pools and arrays themselves, per-thread streams; a call within libcuda is its own.
    let by_cupti = by_cupti.trace();
    let seen = |trace: &Trace| {
        let is_interposed = |call: u64| !matches!(call, 16..=25);
        let rows = trace.ordered();
        let rows =
            rows.iter().filter(|row| is_interposed(row["call"]) && row["depth"] == 0 && row["bytes"] != 778);
        rows.map(|row| {
            ["call", "result", "address", "bytes", "flags", "offset"].map(|name| match name {
                // The host's own address differs from run to run.
                "address" if matches!(row["call"], 6 | 7) => 0,
                name => row[name],
            })
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(seen(&trace), seen(&by_cupti));
    let stack = &trace.native_stacks[trace.rows[0]["native"] as usize];
    let module = &trace.modules[trace.frames[stack[0] as usize].0 as usize];
    assert!(module.0.ends_with("/program"), "{module:?}");
}

#[test]
fn a_cupti_that_another_tool_holds_is_said_once_and_in_the_file() {
    let run = Run::new();
    let mut command = run.program("one");
    let output = command.env("STANDIN_CUPTI_ERROR", "39").output().expect("it runs");
    assert!(output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr.matches("memlab:").count(), 1, "{stderr}");
    assert!(stderr.contains("another tool"), "{stderr}");
    let trace = run.trace();
    assert_eq!((trace.rows.len(), trace.faults.len()), (0, 1));
    assert_eq!(trace.driver()["hook"].as_str(), Some("none"));
    assert_eq!(trace.trailer.as_ref().expect("a trailer")["clean"].as_bool(), Some(false));
}
