//! `stacks-missing`: much of the peak has no stack, for one of three causes.

use crate::error::Result;
use crate::findings::ghosts::is_own_recording;
use crate::findings::{Check, Finding, Guide, Rule, Scene, Severity};
use crate::model::{DeviceTrace, MarkKind, NO_TIME, StackId};
use crate::rebuild::NONE;
use crate::tables::{Passes, Phase, StackFacts};
use crate::units::{Bytes, percent};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "stacks-missing",
    heading: "Much of the peak has no stack",
    guide: Guide {
        says: "At least a tenth of the bytes at the peak was allocated without a stack, so that no line of yours is \
            on record for it. The finding says which of three causes fits, with the bytes of each: allocated before \
            the recording; left out by the recording's `context` or `stacks` setting; or allocated in the backward \
            pass, which runs on a thread without Python.",
        fires: "When at least 10 % of the allocated bytes at the peak belong to allocations whose stack is empty. \
            `cause` is the one with most bytes:\n\n\
            - `before-recording`: the allocation was live before the first event;\n\
            - `backward`: other events of the device do have stacks, and this one lies in a backward pass: between \
            an event inside `backward()` or `grad()` (on this device, or at the same time on another) and the next \
            event of the calling thread, or in a range, mark or label that says so;\n\
            - `setting`: everything else.\n\n\
            `warning` when the cause is `setting`, else `info`: of a late beginning `history-incomplete` warns. Nothing is said when at least nine tenths are \
            `backward` and the recorder named the modules of such allocations: then it is known whose they are.",
        why: "Up to a tenth is usual even in good recordings: buffers of libraries, what was live before the first \
            event. Above that a table of lines cannot be read without knowing what is missing in it.",
        needs: "At least one allocation at the peak. Which part lies in a backward pass is seen from PyTorch's own \
            frames on the events around it, or from ranges (`record_function`) whose names contain \"backward\".",
        is_not: "It is no fault of the program, and the bytes are not lost: they are in every total. Bytes of the \
            backward pass are charged to the line that called it, by inference, and marked as inferred.",
        remedy: "For `before-recording`, start the recording before the model is built. For `setting`, record with \
            `torch.cuda.memory._record_memory_history(context=\"all\", stacks=\"all\")`. For `backward`, \
            `stacks=\"all\"` gives C++ frames to these allocations, and `memlab run` names the module of each.",
    },
    check: Check::Device(find),
};

/// Bytes at the peak without a stack, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Missing {
    before: u64,
    setting: u64,
    backward: u64,
    /// The part of `backward` that was charged to a line all the same.
    inferred: u64,
}

impl Missing {
    fn total(self) -> u64 {
        self.before.saturating_add(self.setting).saturating_add(self.backward)
    }
}

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    let peak = scene.history.peaks.allocated;
    let stacks = &scene.trace.stacks;
    let is_frameless = |stack: StackId| stacks.get(stack).is_empty();
    let rows = &scene.history.allocations;
    let frameless: Vec<usize> =
        scene.live_at(peak.moment).filter(|&row| is_frameless(rows.stacks[row])).collect();
    let bytes = frameless.iter().fold(0u64, |sum, &row| sum.saturating_add(rows.block_bytes[row]));
    if bytes == 0 || u128::from(bytes) * 10 < u128::from(peak.bytes) {
        return Ok(Vec::new());
    }
    let takes_stacks = scene.device.events.stacks.iter().any(|&stack| !is_frameless(stack));
    let missing = by_cause(scene, &frameless, takes_stacks);
    let is_named = !scene.lines.modules.tags.is_empty();
    if is_named && u128::from(missing.backward) * 10 >= u128::from(bytes) * 9 {
        return Ok(Vec::new());
    }
    let charged = frameless.iter().filter(|&&row| scene.lines.inferred.get(row) == Some(&true));
    let lines = scene.by_line(charged.map(|&row| (row, rows.block_bytes[row])));
    let cause = cause(missing);
    let severity = if cause == "setting" { Severity::Warning } else { Severity::Info };
    let finding =
        Finding::new(&RULE, severity, scene.id(), bytes, title(scene, missing, cause, takes_stacks))
            .lines(lines)
            .evidence("cause", cause)
            .evidence("frameless_bytes", missing.total())
            .evidence("peak_allocated_bytes", peak.bytes)
            .evidence("before_recording_bytes", missing.before)
            .evidence("setting_bytes", missing.setting)
            .evidence("backward_bytes", missing.backward)
            .evidence("backward_inferred_bytes", missing.inferred)
            .evidence("events_with_stacks", takes_stacks);
    Ok(vec![finding.remedy(remedy(scene, missing, takes_stacks))])
}

/// The cause with most bytes; of equals the one that is easier to mend.
fn cause(missing: Missing) -> &'static str {
    let most = missing.before.max(missing.setting).max(missing.backward);
    match most {
        most if most == missing.before => "before-recording",
        most if most == missing.setting => "setting",
        _ => "backward",
    }
}

fn by_cause(scene: &Scene<'_>, frameless: &[usize], takes_stacks: bool) -> Missing {
    let rows = &scene.history.allocations;
    let ranges = if takes_stacks { backward_ranges(scene) } else { Vec::new() };
    let mut missing = Missing::default();
    for &row in frameless {
        let bytes = rows.block_bytes[row];
        let event = rows.alloc_events[row];
        let inferred = scene.lines.inferred.get(row) == Some(&true);
        let sum = if event == NONE {
            &mut missing.before
        } else if takes_stacks && (inferred || is_backward(scene, event as usize, &ranges)) {
            if inferred {
                missing.inferred = missing.inferred.saturating_add(bytes);
            }
            &mut missing.backward
        } else {
            &mut missing.setting
        };
        *sum = sum.saturating_add(bytes);
    }
    missing
}

/// Whether the recorder labelled the event so, or it lies in a range that is called so.
fn is_backward(scene: &Scene<'_>, event: usize, ranges: &[(i64, i64)]) -> bool {
    let tag = scene.lines.modules.tags.of_event(&scene.device.events, event);
    if tag.is_some_and(|tag| tag.phase == Phase::Backward) {
        return true;
    }
    let time = scene.device.events.times_us.get(event).copied().unwrap_or(NO_TIME);
    let after = ranges.partition_point(|&(begin, _)| begin <= time);
    time != NO_TIME && after.checked_sub(1).is_some_and(|at| time <= ranges[at].1)
}

/// Spans of time that annotations or marks call a backward pass, or in which one is open on another device, joined
/// and in order.
fn backward_ranges(scene: &Scene<'_>) -> Vec<(i64, i64)> {
    let trace = scene.trace;
    let is_named = |name: &str| name.to_ascii_lowercase().contains("backward");
    let annotations = trace.annotations.iter().filter(|note| is_named(trace.strings.get(note.name)));
    let marks = trace.marks.iter().filter(|mark| mark.kind == MarkKind::Phase && is_named(&mark.name));
    let mut edges: Vec<(i64, bool)> = annotations.map(|note| (note.time_us, note.begins)).collect();
    edges.extend(marks.filter_map(|mark| Some((mark.time_us, mark.begins?))));
    let others = trace.devices.iter().filter(|device| device.device != scene.id());
    for device in others {
        edges.extend(passes_on(device, &scene.lines.facts));
    }
    // At one time a beginning comes before an end.
    edges.sort_unstable_by_key(|&(time, begins)| (time, !begins));
    let mut ranges = Vec::new();
    let mut open: Vec<i64> = Vec::new();
    for (time, begins) in edges {
        if begins {
            open.push(time);
        } else if let Some(begin) = open.pop().filter(|_| open.is_empty()) {
            ranges.push((begin, time));
        }
    }
    ranges
}

/// Begins and ends of the backward passes on `device`, by time.
fn passes_on(device: &DeviceTrace, facts: &[StackFacts]) -> Vec<(i64, bool)> {
    let mut passes = Passes::new(facts);
    let mut edges = Vec::new();
    let mut is_open = false;
    for (&stack, &time) in device.events.stacks.iter().zip(&device.events.times_us) {
        let opens = facts.get(stack.0 as usize).is_some_and(|facts| facts.opens_pass);
        let within = passes.next(stack) != StackId::NONE || opens;
        if within != is_open && time != NO_TIME {
            edges.push((time, within));
            is_open = within;
        }
    }
    if is_open {
        edges.push((i64::MAX, false));
    }
    edges
}

fn title(scene: &Scene<'_>, missing: Missing, cause: &str, takes_stacks: bool) -> String {
    let total = missing.total();
    let share = percent(total, scene.history.peaks.allocated.bytes);
    let head = format!("{} ({share}) of the peak have no stack", Bytes(total));
    let part = |bytes: u64, whole: u64| match bytes {
        bytes if bytes == whole => "all".to_owned(),
        bytes => Bytes(bytes).to_string(),
    };
    match cause {
        "before-recording" => {
            format!(
                "{head}: {} of them were allocated before the recording began",
                part(missing.before, total)
            )
        }
        "setting" if takes_stacks => format!(
            "{head}: {} of them come from a thread without Python code, which the recording's setting leaves out",
            part(missing.setting, total)
        ),
        "setting" => format!("{head}: the recording's setting leaves stacks out"),
        _ => format!(
            "{head}: {} of them were allocated by the backward pass, and {} of these are charged to the line that called it",
            part(missing.backward, total),
            part(missing.inferred, missing.backward)
        ),
    }
}

/// A sentence for every cause that has at least a tenth of what is missing.
fn remedy(scene: &Scene<'_>, missing: Missing, takes_stacks: bool) -> String {
    let by_memlab = is_own_recording(scene.trace);
    let named = !scene.lines.modules.tags.is_empty();
    let before = if by_memlab {
        "Start the recorder before the model is built, as `memlab run` does."
    } else {
        "Start the recording before the model is built."
    };
    let setting = match (takes_stacks, by_memlab) {
        (false, false) => {
            "No event has a stack: record with torch.cuda.memory._record_memory_history(context=\"all\", \
             stacks=\"python\")."
        }
        (false, true) => "No event has a stack: record with stacks=\"python\".",
        (true, _) => {
            "Other events have stacks, so these come from a thread without Python code, as the backward pass is: \
             stacks=\"all\" gives them C++ frames."
        }
    };
    let backward = if named {
        "The modules of these are known: `memlab analyze --group-by module` shows them."
    } else {
        "Nothing need be done for the backward pass; stacks=\"all\" gives these allocations C++ frames, and \
         `memlab run` names the module of each."
    };
    let parts = [(missing.before, before), (missing.setting, setting), (missing.backward, backward)];
    let worth = |part: u64| part > 0 && u128::from(part) * 10 >= u128::from(missing.total());
    let said: Vec<&str> = parts.into_iter().filter(|&(part, _)| worth(part)).map(|(_, text)| text).collect();
    said.join(" ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::findings::scene::samples::found;
    use crate::findings::{Finding, Severity};
    use crate::model::{Annotation, Block, BlockState, DeviceId, Segment, Trace, TraceBuilder};

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7f00_0000_0000;
    const GHOST: u64 = A - 4096 * MIB;
    const AUTOGRAD: &str = "/opt/lib/python3.12/site-packages/torch/autograd/__init__.py";

    fn rule(trace: &Trace) -> Vec<Finding> {
        found("stacks-missing", trace, None)
    }

    fn block(address: u64, bytes: u64) -> Segment {
        let state = BlockState::ActiveAllocated;
        let block = Block { address, bytes, requested_bytes: bytes, state, ..Block::default() };
        Segment { address, bytes, blocks: vec![block], ..Segment::default() }
    }

    /// The case as public threads tell it: one block from before, one of the forward pass with frames, one without
    /// in a range called backward. Sizes in MiB.
    fn three(ghost: u64, forward: u64, backward: u64) -> Trace {
        let (f, b) = (A, A + 4096 * MIB);
        let mut trace = TraceBuilder::new()
            .segment_alloc(f, forward * MIB)
            .segment_alloc(b, backward * MIB)
            .at("model.py", 7, "forward")
            .alloc(f, forward * MIB)
            .stack(&[])
            .alloc(b, backward * MIB)
            .segments(vec![block(GHOST, ghost * MIB), block(f, forward * MIB), block(b, backward * MIB)])
            .build();
        let name = trace.strings.intern("## Backward ##");
        for (begins, time_us) in [(true, 1_000_025), (false, 1_000_035)] {
            trace.annotations.push(Annotation { name, begins, device: DeviceId(0), time_us });
        }
        trace
    }

    #[test]
    fn every_byte_without_a_stack_has_one_of_three_causes() {
        let found = rule(&three(300, 100, 200));
        let evidence = &found[0].evidence;
        assert_eq!(evidence["cause"], "before-recording");
        assert_eq!(found[0].severity, Severity::Info);
        let bytes = ["before_recording_bytes", "setting_bytes", "backward_bytes", "frameless_bytes"];
        let mib = bytes.map(|name| evidence[name].as_u64().unwrap() / MIB);
        assert_eq!(mib, [300, 0, 200, 500]);
        assert_eq!(rule(&three(100, 100, 200))[0].evidence["cause"], "backward");
    }

    #[test]
    fn below_a_tenth_nothing_is_said() {
        assert!(rule(&three(50, 902, 48)).is_empty());
        assert_eq!(rule(&three(50, 900, 50)).len(), 1);
    }

    #[test]
    fn what_is_neither_early_nor_backward_is_the_settings() {
        let mut outside = three(2, 100, 200);
        outside.annotations.clear();
        let found = rule(&outside);
        assert_eq!(found[0].evidence["cause"], "setting");
        assert!(found[0].remedy.contains("thread without Python"), "{}", found[0].remedy);
        let none = TraceBuilder::new().segment_alloc(A, 20 * MIB).alloc(A, 20 * MIB).build();
        let found = rule(&none);
        assert_eq!((&found[0].evidence["cause"], found[0].severity), (&"setting".into(), Severity::Warning));
        assert!(found[0].remedy.contains("context=\"all\""), "{}", found[0].remedy);
    }

    #[test]
    fn without_any_stack_a_backward_range_proves_nothing() {
        let mut trace = TraceBuilder::new().segment_alloc(A, 20 * MIB).alloc(A, 20 * MIB).build();
        let name = trace.strings.intern("backward");
        for (begins, time_us) in [(true, 1_000_000), (false, 1_000_020)] {
            trace.annotations.push(Annotation { name, begins, device: DeviceId(0), time_us });
        }
        assert_eq!(rule(&trace)[0].evidence["cause"], "setting");
    }

    #[test]
    fn what_inference_charged_is_named_with_its_line() {
        let trace = TraceBuilder::new()
            .segment_alloc(A, 400 * MIB)
            .at("model.py", 7, "forward")
            .alloc(A, 100 * MIB)
            .stack(&[(AUTOGRAD, 90, "_make_grads"), (AUTOGRAD, 170, "backward"), ("train.py", 10, "step")])
            .alloc(A + 100 * MIB, MIB)
            .stack(&[])
            .alloc(A + 101 * MIB, 99 * MIB)
            .build();
        let found = rule(&trace);
        assert_eq!((found[0].severity, found[0].bytes), (Severity::Info, 99 * MIB));
        assert_eq!(found[0].evidence["backward_inferred_bytes"], 99 * MIB);
        assert_eq!((found[0].lines[0].line, found[0].lines[0].bytes), (10, 99 * MIB));
    }

    #[test]
    fn a_pass_that_runs_on_another_device_meanwhile_is_evidence() {
        let mut builder = TraceBuilder::new()
            .segment_alloc(A, 400 * MIB)
            .at("model.py", 7, "forward")
            .alloc(A, 100 * MIB)
            .device(1)
            .segment_alloc(A, 400 * MIB)
            .stack(&[(AUTOGRAD, 90, "_make_grads"), (AUTOGRAD, 170, "backward"), ("train.py", 10, "step")])
            .alloc(A, MIB);
        builder = builder.device(0).stack(&[]).alloc(A + 100 * MIB, 50 * MIB);
        let trace = builder.device(1).at("train.py", 11, "step").alloc(A + MIB, MIB).build();
        let found = rule(&trace);
        assert_eq!((&found[0].evidence["cause"], found[0].bytes), (&"backward".into(), 50 * MIB));
    }

    #[test]
    fn native_frames_are_a_stack() {
        let trace = TraceBuilder::new()
            .segment_alloc(A, 20 * MIB)
            .at("engine.cpp", 0, "torch::autograd::Engine::thread_main")
            .alloc(A, 20 * MIB)
            .build();
        assert!(rule(&trace).is_empty());
    }
}
