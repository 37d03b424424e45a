//! Parts of recordings on the command line: `--from`, `--to` and `--step` of a trace that holds states in between.

use serde_json::Value;

use crate::sandbox::Sandbox;

fn converted(every: &str) -> Sandbox {
    let sandbox = Sandbox::with_snapshot("cnn.pickle");
    sandbox.run(&["convert", "cnn.pickle", "cnn.msgpack", "--state-every", every]).ends_with(0);
    sandbox
}

fn device(sandbox: &Sandbox, words: &[&str]) -> (Value, Vec<Value>) {
    let mut report = sandbox.run(words).ends_with(0).json()["traces"][0].take();
    (report["devices"][0].take(), report["warnings"].as_array().unwrap().clone())
}

#[test]
fn a_window_of_a_trace_with_states_has_the_figures_of_the_snapshots() {
    let sandbox = converted("1");
    let window = ["--from", "200", "--to", "260", "--json"];
    let (whole, _) = device(&sandbox, &[&["analyze", "cnn.pickle"][..], &window].concat());
    let (part, warnings) = device(&sandbox, &[&["analyze", "cnn.msgpack"][..], &window].concat());
    for key in ["events", "peak", "peak_event", "initial", "end", "ooms"] {
        assert_eq!(whole[key], part[key], "{key}");
    }
    let told = warnings.iter().find(|warning| warning["kind"] == "excerpt").unwrap();
    assert!(told["text"].as_str().unwrap().contains("of the 382 events of device 0"), "{told}");
    let beyond = sandbox.run(&["lines", "cnn.msgpack", "--from", "382"]).ends_with(2);
    assert!(beyond.stderr.contains("there is no event 382"), "{beyond:?}");
    assert!(beyond.stderr.contains("there are 382"), "{beyond:?}");
}

#[test]
fn without_states_nothing_is_left_out() {
    let sandbox = converted("0");
    let (_, warnings) =
        device(&sandbox, &["analyze", "cnn.msgpack", "--from", "200", "--to", "260", "--json"]);
    assert!(warnings.iter().all(|warning| warning["kind"] != "excerpt"), "{warnings:?}");
}

#[test]
fn a_step_that_is_not_there_is_refused() {
    let sandbox = converted("50");
    let unknown = sandbox.run(&["lines", "cnn.msgpack", "--step", "no such"]).ends_with(2);
    assert!(unknown.stderr.contains("there is no step `no such` in the trace"), "{unknown:?}");
    let both = sandbox.run(&["lines", "cnn.msgpack", "--step", "1", "--from", "3"]).ends_with(2);
    assert!(both.stderr.contains("cannot be used with"), "{both:?}");
    let snapshot = sandbox.run(&["convert", "cnn.msgpack", "x.pickle", "--state-every", "5"]).ends_with(2);
    assert!(snapshot.stderr.contains("--state-every is for traces"), "{snapshot:?}");
}
