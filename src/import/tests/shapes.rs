//! Old, unusual and impossible forms. JSON is used to write them down: behind the readers all is one.

use super::json;
use crate::error::Error;
use crate::model::{Action, BlockState, DeviceId, NO_TIME, PoolId, SettingValue, Trace};

fn event(keys: &str) -> Trace {
    json(&format!(r#"{{"segments": [], "device_traces": [[{keys}]]}}"#))
}

#[test]
fn the_form_of_1_13_is_a_list_of_segments() {
    let trace = json(
        r#"[{"device": 1, "address": 4096, "total_size": 2048, "allocated_size": 512, "active_size": 1024,
            "stream": 0, "segment_type": "small", "blocks": [
            {"size": 512, "state": "active_allocated", "history": [
                {"addr": 4096, "real_size": 500, "frames": [{"name": "f", "filename": "a.py", "line": 3}]},
                {"addr": 4096, "real_size": 12, "frames": []}]},
            {"size": 512, "state": "active_awaiting_free"}, {"size": 1024, "state": "inactive", "history": [
                {"addr": 5120, "real_size": 7, "frames": [{"name": "g", "filename": "a.py", "line": 4}]}]}]}]"#,
    );
    assert!(trace.warnings.is_empty(), "{:?}", trace.warnings);
    assert_eq!(trace.devices[0].device, DeviceId(1));
    let segment = &trace.devices[0].segments.as_ref().unwrap()[0];
    assert_eq!(segment.blocks.iter().map(|block| block.address).collect::<Vec<_>>(), [4096, 4608, 5120]);
    assert_eq!(segment.blocks[0].requested_bytes, 500);
    assert_eq!(super::stack(&trace, segment.blocks[0].stack), "a.py:3 f < ");
    assert_eq!(segment.blocks[1].state, BlockState::ActivePendingFree);
    assert_eq!(super::stack(&trace, segment.blocks[2].stack), "");
}

#[test]
fn missing_keys_of_events_are_no_trouble() {
    let trace = event(r#"{"action": "alloc", "addr": 1, "size": 2, "stream": 0}"#);
    assert_eq!(trace.warnings.iter().map(|warning| warning.kind).collect::<Vec<_>>(), ["no-segments"]);
    assert_eq!(trace.devices[0].events.times_us, [NO_TIME]);
    let trace = event(r#"{"action": "alloc", "size": 2}, {"addr": 4}"#);
    assert_eq!(trace.warnings.count("missing-key"), 2);
    assert_eq!(trace.event_count(), 1);
}

#[test]
fn unknown_keys_and_actions_are_kept_or_left_out_with_a_warning() {
    let trace = event(r#"{"action": "user_defined", "size": 2, "weight": 3}"#);
    assert_eq!((trace.warnings.count("unknown-key"), trace.warnings.count("unknown-action")), (1, 1));
    let events = &trace.devices[0].events;
    assert_eq!(events.actions, [Action::Other]);
    assert_eq!(trace.strings.get(events.other_actions[0].1), "user_defined");
}

#[test]
fn a_thousand_unknown_keys_do_not_make_a_thousand_warnings() {
    let keys: Vec<String> = (0..1000).map(|n| format!(r#""key{n}": 0"#)).collect();
    let trace = json(&format!(r#"{{"segments": [], {}}}"#, keys.join(",")));
    assert!(trace.warnings.iter().count() < 50);
    assert_eq!(trace.warnings.count("unknown-key"), 1000);
}

#[test]
fn a_viewers_free_is_both_steps() {
    let trace =
        event(r#"{"action": "free", "addr": 1, "size": 2}, {"action": "alloc", "addr": 1, "size": 2}"#);
    let wanted = [Action::FreeRequested, Action::FreeCompleted, Action::Alloc];
    assert_eq!(trace.devices[0].events.actions, wanted);
}

#[test]
fn pool_ids_may_be_lists() {
    let trace = event(r#"{"action": "alloc", "addr": 1, "size": 2, "pool_id": [7, 0]}"#);
    assert_eq!(trace.event_pool(&trace.devices[0], 0), Some(PoolId(7, 0)));
}

#[test]
fn impossible_sizes_are_kept_in_range_and_said() {
    let trace = event(
        r#"{"action": "alloc", "addr": 1, "size": -5}, {"action": "alloc", "addr": 1, "size": 9223372036854775808},
           {"action": "alloc", "addr": 1, "size": 1e30}, {"action": "oom", "device_free": 1, "size": 1125899906842625}"#,
    );
    assert_eq!(trace.devices[0].events.sizes, [0, 1 << 63, u64::MAX, (1 << 50) + 1]);
    // Two that are out of range for 64 bits, two that are in it; what was refused may be any size.
    assert_eq!(trace.warnings.count("impossible-value"), 4);
}

#[test]
fn segments_that_contradict_themselves_are_said() {
    let trace = json(
        r#"{"segments": [{"device": 0, "address": 18446744073709551615, "total_size": 4096, "allocated_size": 1,
            "blocks": [{"address": 5, "size": 512, "state": "inactive"}]}], "device_traces": []}"#,
    );
    assert_eq!(trace.warnings.count("impossible-value"), 3, "{:?}", trace.warnings);
    let trace = json(r#"{"segments": [{"device": -3, "blocks": []}, {"device": 99999999, "blocks": null}]}"#);
    assert_eq!(trace.devices.len(), 0);
    assert_eq!(trace.warnings.count("impossible-value"), 2);
}

#[test]
fn odd_values_are_left_out() {
    let trace = json(
        r#"{"segments": [{"device": "x", "blocks": 3}], "device_traces": [[7, {"action": 5}], 8],
            "external_annotations": [{"stage": "MIDDLE"}, 4], "allocator_settings": {"a": [1], "b": 1.5, "c": null}}"#,
    );
    assert_eq!(trace.event_count(), 0);
    assert!(trace.warnings.count("odd-value") >= 6, "{:?}", trace.warnings);
    assert_eq!(trace.settings.values.get("b"), Some(&SettingValue::Float(1.5)));
    assert_eq!(trace.settings.values.len(), 1);
}

#[test]
fn times_that_run_backwards_are_said() {
    let trace = event(
        r#"{"action": "alloc", "addr": 1, "size": 2, "time_us": 5}, {"action": "alloc", "addr": 2, "size": 2, "time_us": 4}"#,
    );
    assert_eq!(trace.warnings.count("time-order"), 1);
    assert_eq!(trace.devices[0].events.times_us, [5, 4]);
}

#[test]
fn host_memory_is_left_out_and_said() {
    let trace = json(r#"{"segments": [], "host_segments": [{}, {}], "host_traces": []}"#);
    assert_eq!(trace.warnings.count("host-memory"), 2);
}

#[test]
fn forward_frames_are_joined_and_cpp_frames_become_frames() {
    let trace = event(
        r#"{"action": "alloc", "addr": 1, "size": 2, "forward_frames": ["a", "b"], "cpp_frames": ["at::empty"]}"#,
    );
    let events = &trace.devices[0].events;
    assert_eq!(trace.strings.get(events.forward_frames.get(0)), "a\nb");
    assert_eq!(super::stack(&trace, events.stacks[0]), ":0 at::empty < ");
}

#[test]
fn what_is_no_snapshot_is_an_error() {
    for text in ["{}", "[1]", r#"{"segments": 5}"#, r#"{"device_traces": {}}"#, "[[[]]]"] {
        assert!(matches!(super::read(text.as_bytes()), Err(Error::Shape { .. })), "{text}");
    }
}
