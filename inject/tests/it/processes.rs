//! Forked and started processes have files of their own.

use crate::support::{Run, quietly};
use crate::trace::{Row, Trace};

fn sizes(trace: &Trace) -> Vec<u64> {
    let is_alloc = |row: &&Row| row["call"] == 1;
    trace.rows.iter().filter(is_alloc).map(|row| row["bytes"]).collect()
}

fn child_of(run: &Run, what: &str) -> Trace {
    let output = quietly(run.program(what));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let child = stderr.trim().strip_prefix("child ").expect("the child's id").to_owned();
    assert_eq!(run.files(), [format!("t.{child}.msgpack"), "t.msgpack".to_owned()]);
    assert_eq!(sizes(&run.trace()), [1001, 1002, 1003]);
    assert!(run.trace().trailer.is_some());
    let trace = Trace::read(&run.path(&format!("t.{child}.msgpack")));
    assert_eq!(trace.process[0]["pid"].as_u64().map(|pid| pid.to_string()), Some(child));
    assert_eq!(trace.driver()["parent"], run.trace().process[0]["pid"]);
    assert!(trace.trailer.is_some());
    trace
}

#[test]
fn a_forked_child_writes_its_own_file() {
    let run = Run::new();
    let trace = child_of(&run, "fork");
    assert_eq!(sizes(&trace), [2001, 2002]);
    assert_eq!(trace.driver()["forked"].as_bool(), Some(true));
    assert!(trace.rows.iter().all(|row| row["thread"] == trace.process[0]["pid"].as_u64().expect("an id")));
    assert!(trace.rows.iter().all(|row| row["native"] != 0));
}

#[test]
fn a_program_that_is_started_writes_its_own_file() {
    let run = Run::new();
    let trace = child_of(&run, "exec");
    assert_eq!(sizes(&trace), [3001]);
    assert_eq!(trace.driver()["forked"].as_bool(), Some(false));
}

#[test]
fn ranks_fill_the_placeholder() {
    let run = Run::new();
    let mut command = run.program("one");
    command.env("RANK", "3").env("MEMLAB_DRIVER_OUTPUT", run.path("r-{rank}.msgpack"));
    quietly(command);
    assert_eq!(run.files(), ["r-3.msgpack"]);
    assert_eq!(Trace::read(&run.path("r-3.msgpack")).process[0]["rank"].as_u64(), Some(3));
}

#[test]
fn a_file_of_an_earlier_recording_is_replaced() {
    let run = Run::new();
    quietly(run.program("stacks"));
    let earlier = std::time::SystemTime::now() - std::time::Duration::from_mins(1);
    std::fs::File::options()
        .append(true)
        .open(run.path("t.msgpack"))
        .and_then(|file| file.set_modified(earlier))
        .expect("a time");
    quietly(run.program("one"));
    assert_eq!(run.files(), ["t.msgpack"]);
    assert_eq!(sizes(&run.trace()), [3001]);
}

#[test]
fn a_file_that_is_no_recording_is_not_replaced() {
    let run = Run::new();
    std::fs::write(run.path("t.msgpack"), "a thesis").expect("a file");
    let earlier = std::time::SystemTime::now() - std::time::Duration::from_mins(1);
    let file = std::fs::File::options().append(true).open(run.path("t.msgpack"));
    file.and_then(|file| file.set_modified(earlier)).expect("a time");
    quietly(run.program("one"));
    assert_eq!(std::fs::read_to_string(run.path("t.msgpack")).ok().as_deref(), Some("a thesis"));
    assert_eq!(run.files().len(), 2);
}

#[test]
fn the_end_is_said_where_that_was_asked_for() {
    let run = Run::new();
    let output = run.program("one").env("MEMLAB_DRIVER_SAY", "1").output().expect("it runs");
    let expected = format!("memlab: wrote {}: 2 driver calls\n", run.path("t.msgpack").display());
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
}
