//! However the process ends, the file can be read.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{Run, built, quietly};

#[test]
fn a_killed_process_leaves_what_it_did() {
    let run = Run::new();
    let mut child = run.program("wait").stdout(Stdio::piped()).spawn().expect("it runs");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "ready"));
    std::thread::sleep(Duration::from_millis(1500));
    child.kill().expect("it is there");
    child.wait().expect("it ends");
    let trace = run.trace();
    assert_eq!((trace.rows.len(), trace.cut), (3000, 0));
    assert!(trace.trailer.is_none());
}

#[test]
fn a_process_killed_in_the_middle_leaves_whole_chunks() {
    let run = Run::new();
    let mut child = run.program("forever").spawn().expect("it runs");
    std::thread::sleep(Duration::from_millis(1200));
    child.kill().expect("it is there");
    child.wait().expect("it ends");
    let trace = run.trace();
    assert!(trace.trailer.is_none() && trace.rows.len() > 1000, "{}", trace.rows.len());
    let rows = trace.ordered();
    for (at, row) in rows.iter().enumerate() {
        assert_eq!(row["order"], at as u64 + 1);
        assert_eq!(row["bytes"], at as u64);
    }
}

#[test]
fn what_exit_handlers_do_is_recorded() {
    let run = Run::new();
    quietly(run.program("late"));
    let trace = run.trace();
    assert_eq!(trace.rows.last().map(|row| row["bytes"]), Some(31337));
    assert!(trace.trailer.is_some());
}

#[test]
fn a_file_that_cannot_be_made_stops_the_recorder_and_not_the_program() {
    let run = Run::new();
    let mut plain = Command::new(built().join("program"));
    let plain = plain.env("LD_LIBRARY_PATH", built()).arg("one").output().expect("it runs");
    let mut command = run.program("one");
    let output = command.env("MEMLAB_DRIVER_OUTPUT", "/nowhere/t.msgpack").output().expect("it runs");
    assert!(output.status.success());
    let without_thread = |stdout: &[u8]| {
        let text = String::from_utf8_lossy(stdout).into_owned();
        text.lines().map(|line| line.split_once(' ').expect("a thread").1.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(without_thread(&output.stdout), without_thread(&plain.stdout));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr.matches("memlab:").count(), 1, "{stderr}");
    assert!(stderr.contains("cannot write /nowhere/t.msgpack"), "{stderr}");
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_program() {
    let run = Run::new();
    // No file may grow beyond 32 KiB; calls that are all alike take a third of a byte each.
    let mut command = run.command(std::path::Path::new("sh"));
    command.args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" bench 100000"]).arg(built().join("program"));
    let output = command.output().expect("it runs");
    assert!(output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr.matches("memlab:").count(), 1, "{stderr}");
    assert!(stderr.contains("the program goes on") && stderr.contains("t.msgpack"), "{stderr}");
    let trace = run.trace();
    assert!(trace.trailer.is_none() && trace.cut == 0);
    assert!((1..400_000).contains(&trace.rows.len()), "{}", trace.rows.len());
}
