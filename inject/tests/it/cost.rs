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
    let trace = run.trace();
    assert_eq!(trace.rows.len(), 2 * 2 * 20_000 + 1);
    let own = |key: &str| trace.driver()[key].as_u64().expect("a figure");
    let mean = own("own_ns") / trace.rows.len() as u64;
    println!("{mean} ns of a call are the recorder's own, {} of the worst", own("own_max_ns"));
    // Of the two passes, the second one is what was measured outside.
    assert!(mean > 0 && own("own_max_ns") >= mean && mean < 3 * with as u64, "{mean} {with}");
    assert!(with < 100_000.0, "{with} ns");
}
