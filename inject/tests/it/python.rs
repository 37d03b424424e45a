//! Python's frames, from the real interpreters of this machine: python3, and 3.9 to 3.13 by name where they are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Run, built, quietly};
use crate::trace::Trace;

/// Calls the stand-in from functions in functions, holding the interpreter (`PyDLL`), and from threads.
const SCRIPT: &str = r#"
import ctypes, gc, sys, threading

cuda = ctypes.PyDLL(sys.argv[1])
out = ctypes.c_uint64()

def inner(size):
    return cuda.cuMemAlloc_v2(ctypes.byref(out), ctypes.c_size_t(size))  # LINE inner

def outer(size):
    if size > 5:
        pass
    return inner(size)  # LINE outer

class Freed:
    def __del__(self):
        cuda.cuMemFree_v2(ctypes.c_uint64(0x7000))  # LINE del

cuda.cuInit(0)
for size in (1, 2, 3):
    outer(size)  # LINE module
thread = threading.Thread(target=outer, args=(4,))
thread.start()
thread.join()
try:
    raise ValueError("kept")
except ValueError as error:
    outer(5)
    assert str(error) == "kept" and sys.exc_info()[0] is ValueError
before = sys.getrefcount(inner.__code__)
for _ in range(1000):
    outer(6)
assert abs(sys.getrefcount(inner.__code__) - before) <= 1, (before, sys.getrefcount(inner.__code__))
assert gc.isenabled()
Freed()
eval("outer(7)")
last = Freed()
"#;

/// One program for each version that is there.
fn interpreters() -> Vec<PathBuf> {
    let names = [9, 10, 11, 12, 13].map(|minor| format!("python3.{minor}"));
    let asked = ["python3".to_owned()].into_iter().chain(names).filter_map(|name| {
        let words = ["-c", "import sys; print(sys.version_info[:2] >= (3, 9), sys.version, sys.executable)"];
        let output = Command::new(name).args(words).output().ok().filter(|output| output.status.success())?;
        let text = String::from_utf8(output.stdout).ok()?;
        let version = text.trim().strip_prefix("True ")?.to_owned();
        let path = version.rsplit(' ').next()?.to_owned();
        Some((version, path.into()))
    });
    let found: BTreeMap<String, PathBuf> = asked.collect();
    assert!(!found.is_empty(), "no python3");
    found.into_values().collect()
}

#[test]
fn python_frames_are_those_that_called() {
    for interpreter in interpreters() {
        frames_of_a_thread_that_holds_the_interpreter(&interpreter);
    }
}

fn frames_of_a_thread_that_holds_the_interpreter(interpreter: &Path) {
    println!("{}", interpreter.display());
    let run = Run::new();
    let script = run.path("job.py");
    std::fs::write(&script, SCRIPT).expect("a script");
    let mut command = run.command(interpreter);
    command.arg(&script).arg(built().join("libcuda.so.1"));
    quietly(command);
    let trace = run.trace();
    assert!(trace.trailer.is_some());
    let file = script.to_string_lossy().into_owned();
    let line = |mark: &str| SCRIPT.lines().position(|line| line.contains(mark)).expect("a mark") + 1;
    let frame = |function: &str, mark: &str| format!("{function} {file}:{}", line(mark));
    let expected =
        [frame("inner", "LINE inner"), frame("outer", "LINE outer"), frame("<module>", "LINE module")];
    let of_size = |bytes: u64| {
        let row = trace.rows.iter().find(|row| row["bytes"] == bytes).expect("the call");
        (row, trace.python(row))
    };
    for bytes in [1, 2, 3] {
        assert_eq!(of_size(bytes).1, expected);
    }
    assert_eq!(of_size(1).0["python"], of_size(3).0["python"]);
    let in_thread = of_size(4);
    assert_eq!(in_thread.1[..2], expected[..2]);
    assert!(in_thread.1[2].starts_with("run ") && in_thread.0["thread"] != of_size(1).0["thread"]);
    assert_eq!(of_size(5).1.last(), Some(&frame("<module>", "    outer(5)")));
    assert_eq!(of_size(7).1[2], "<module> <string>:1");
    let frees: Vec<_> = trace.rows.iter().filter(|row| row["call"] == 2).collect();
    assert_eq!(trace.python(frees[0])[0], frame("__del__", "LINE del"));
    assert_eq!(trace.rows.iter().filter(|row| row["bytes"] == 6).count(), 1000);
    // The last object goes while the interpreter ends: the call is there, its frames need not be.
    assert_eq!(frees.len(), 2);
    // The interpreter's own answer to the first call has proved that the quicker way is right.
    assert_eq!(trace.driver()["python"].as_str(), Some("pipe"));
}

/// The same without the interpreter (`CDLL` lets go of it around a call), other threads running Python meanwhile.
const DETACHED: &str = r#"
import ctypes, sys, threading

cuda = ctypes.CDLL(sys.argv[1])
out = ctypes.c_uint64()

def inner(size):
    return cuda.cuMemAlloc_v2(ctypes.byref(out), ctypes.c_size_t(size))  # LINE inner

def größe(size):
    x = [inner(one) for one in (size,)]  # LINE outer
    return x

def passing(size):
    yield größe(size)  # LINE generator

def busy():
    while not done:
        sum(range(100))

cuda.cuInit(0)
done = False
noise = threading.Thread(target=busy)
noise.start()
for size in (1, 2, 3):
    list(passing(size))  # LINE module
thread = threading.Thread(target=größe, args=(4,))
thread.start()
thread.join()
for round in range(300):
    # Code objects come and go at the same addresses.
    names = {}
    exec(compile("\n" * round + f"def made_{round}(call): return call({1000 + round})", f"made-{round}.py", "exec"), names)
    names[f"made_{round}"](inner)
    del names
done = True
noise.join()
"#;

#[test]
fn python_frames_are_found_where_the_interpreter_was_let_go() {
    for interpreter in interpreters() {
        frames_of_a_thread_that_let_go(&interpreter);
    }
}

fn frames_of_a_thread_that_let_go(interpreter: &Path) {
    println!("{}", interpreter.display());
    let run = Run::new();
    let trace = detached(&run, run.command(interpreter));
    assert_frames(&run, &trace);
    assert_eq!(trace.driver()["python"].as_str(), Some("pipe"));
    assert!(trace.driver()["python_unread"].is_nil());
}

/// What the second script leaves, run by `interpreter`.
fn detached(run: &Run, mut interpreter: Command) -> Trace {
    std::fs::write(run.path("job.py"), DETACHED).expect("a script");
    interpreter.arg(run.path("job.py")).arg(built().join("libcuda.so.1"));
    quietly(interpreter);
    run.trace()
}

/// `interpreter` where the system refuses calls; `None` where the system has no such filters.
fn denied(run: &Run, calls: &[&str], interpreter: &Path) -> Option<Command> {
    let deny = built().join("deny");
    let can = Command::new(&deny).args(calls).args(["--", "true"]).status().expect("it runs");
    if can.code() == Some(77) {
        println!("left out: this system has no filters of system calls");
        return None;
    }
    let mut command = run.command(&deny);
    command.args(calls).arg("--").arg(interpreter);
    Some(command)
}

#[test]
fn python_frames_are_found_by_the_way_that_the_system_allows() {
    for interpreter in interpreters() {
        println!("{}", interpreter.display());
        for (refused, way) in [("readv", "pipe"), ("pipe", "memory")] {
            let run = Run::new();
            let Some(command) = denied(&run, &[refused], &interpreter) else { return };
            let trace = detached(&run, command);
            assert_frames(&run, &trace);
            assert_eq!(trace.driver()["python"].as_str(), Some(way));
            assert!(trace.driver()["python_unread"].is_nil());
        }
    }
}

#[test]
fn frames_that_cannot_be_read_are_counted_and_the_file_says_why() {
    for interpreter in interpreters() {
        let run = Run::new();
        let Some(command) = denied(&run, &["readv", "pipe"], &interpreter) else { return };
        let trace = detached(&run, command);
        assert!(trace.rows.len() > 300 && trace.rows.iter().all(|row| row["python"] == 0));
        let driver = trace.driver();
        assert_eq!(driver["python_unread"].as_u64(), Some(trace.rows.len() as u64));
        let how = driver["python"].as_str().expect("a reason");
        assert!(how.starts_with("api;") && how.contains("refuses to read memory"), "{how}");
    }
}

fn assert_frames(run: &Run, trace: &Trace) {
    let script = run.path("job.py");
    let file = script.to_string_lossy().into_owned();
    let line = |mark: &str| DETACHED.lines().position(|line| line.contains(mark)).expect("a mark") + 1;
    let frame = |function: &str, mark: &str| format!("{function} {file}:{}", line(mark));
    let stack = |bytes: u64| {
        let row = trace.rows.iter().find(|row| row["bytes"] == bytes).expect("the call");
        let frames = trace.python(row);
        // Comprehensions are frames of their own until Python 3.11.
        frames.into_iter().filter(|frame| !frame.starts_with("<listcomp>")).collect::<Vec<_>>()
    };
    let expected = [
        frame("inner", "LINE inner"),
        frame("größe", "LINE outer"),
        frame("passing", "LINE generator"),
        frame("<module>", "LINE module"),
    ];
    for bytes in [1, 2, 3] {
        assert_eq!(stack(bytes), expected);
    }
    assert_eq!(stack(4)[..2], expected[..2]);
    for round in 0..300 {
        assert_eq!(stack(1000 + round)[1], format!("made_{round} made-{round}.py:{}", round + 1));
    }
}
