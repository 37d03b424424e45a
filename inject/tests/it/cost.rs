//! What a recorded call costs. The figure is printed; the bound is loose, for machines that do other work.

use std::process::Command;

use crate::support::{Run, built, quietly};

#[test]
fn a_call_costs_microseconds() {
    let nanoseconds = |command: Command| -> f64 {
        String::from_utf8_lossy(&quietly(command).stdout)
            .trim()
            .lines()
            .last()
            .expect("a figure")
            .parse()
            .expect("a number")
    };
    let mut plain = Command::new(built().join("program"));
    plain.env("LD_LIBRARY_PATH", built()).arg("bench");
    let run = Run::new();
    let (without, with) = (nanoseconds(plain), nanoseconds(run.program("bench")));
    println!("{without} ns a call without the recorder, {with} ns with it");
    assert_eq!(run.trace().rows.len(), 2 * 2 * 20_000 + 1);
    assert!(with < 100_000.0, "{with} ns");
}
