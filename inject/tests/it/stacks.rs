//! Native stacks lead to the lines of the program.

use std::process::Command;

use crate::support::{Run, built, quietly, sources};

#[test]
fn native_frames_are_the_functions_and_lines_that_called() {
    let run = Run::new();
    quietly(run.program("stacks"));
    let trace = run.trace();
    let rows: Vec<_> = trace.rows.iter().filter(|row| row["call"] == 1).collect();
    assert_eq!(rows.len(), 4);
    assert!(
        rows[0]["native"] != 0
            && rows[0]["native"] == rows[1]["native"]
            && rows[1]["native"] == rows[2]["native"]
    );
    assert_ne!(rows[2]["native"], rows[3]["native"]);
    let stack = &trace.native_stacks[rows[0]["native"] as usize];
    // The driver's own frames are innermost, those of CUPTI and the recorder are left out.
    let is_driver =
        |frame: &&u64| trace.modules[trace.frames[**frame as usize].0 as usize].0.ends_with("libcuda.so.1");
    let inside = stack.iter().take_while(is_driver).count();
    assert!((1..=2).contains(&inside), "{inside}");
    let frame = |at: usize| trace.frames[stack[inside - 1 + at] as usize];
    let module = |at: usize| &trace.modules[frame(at).0 as usize];
    let program = built().join("program");
    let text = std::fs::read_to_string(sources().join("program.c")).expect("the source");
    for (at, function) in [(1, "inner"), (2, "middle"), (3, "stacks")] {
        assert_eq!(module(at).0, program.to_string_lossy());
        let line =
            text.lines().position(|line| line.contains(&format!("LINE {function}"))).expect("a mark") + 1;
        assert_eq!(where_is(&module(at).0, frame(at).1 - 1), (function.to_owned(), line));
    }
    assert_eq!(where_is(&module(4).0, frame(4).1 - 1).0, "main");
    let note = Command::new("readelf").args(["-n", &module(1).0]).output().expect("readelf runs");
    let note = String::from_utf8_lossy(&note.stdout).into_owned();
    assert!(
        module(1).1.is_empty() && !note.contains("Build ID")
            || note.contains(&format!("Build ID: {}", module(1).1))
    );
}

fn where_is(module: &str, offset: u64) -> (String, usize) {
    let offset = format!("{offset:#x}");
    let output =
        Command::new("addr2line").args(["-f", "-e", module, &offset]).output().expect("addr2line runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (function, place) = text.trim_end().split_once('\n').expect("two lines");
    let line = place.rsplit(':').next().expect("a line").split(' ').next().expect("a number");
    (function.to_owned(), line.parse().unwrap_or(0))
}

#[test]
fn stacks_can_be_left_out() {
    let run = Run::new();
    let mut command = run.program("stacks");
    command.env("MEMLAB_DRIVER_STACKS", "none");
    quietly(command);
    let trace = run.trace();
    assert!(trace.rows.len() == 5 && trace.rows.iter().all(|row| row["native"] == 0));
}

#[test]
fn stacks_are_right_while_libraries_come_and_go() {
    let run = Run::new();
    let mut command = run.program("plugins");
    command.arg(built().join("plugin.so"));
    let output = quietly(command);
    let trace = run.trace();
    assert_eq!(trace.rows.len(), String::from_utf8_lossy(&output.stdout).lines().count());
    for row in &trace.rows {
        let stack = &trace.native_stacks[row["native"] as usize];
        let names = stack.iter().map(|&frame| {
            let path = &trace.modules[trace.frames[frame as usize].0 as usize].0;
            path.rsplit('/').next().unwrap_or_default().to_owned()
        });
        let names: Vec<String> = names.skip_while(|name| name == "libcuda.so.1").collect();
        let is_plugin = (7000..7200).contains(&row["bytes"]);
        assert_eq!(names[0], if is_plugin { "plugin.so" } else { "program" }, "{row:?} {names:?}");
        assert!(
            names.iter().all(|name| !name.is_empty())
                && names.last().is_some_and(|name| name.starts_with("libc.") || name == "program"),
            "{names:?}"
        );
    }
}
