//! `history-incomplete`: the recording does not show everything.

use crate::error::Result;
use crate::findings::faults::{self, Fault};
use crate::findings::ghosts::{Ghosts, ghosts, is_own_recording};
use crate::findings::{Check, Finding, Guide, Rule, Scene, Severity};
use crate::units::{Bytes, Count, percent};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "history-incomplete",
    heading: "The recording does not show everything",
    guide: Guide {
        says: "The recording lacks allocations or frees that happened: it began late, its ring overflowed, events \
            were lost, or the file was cut. The finding says what is missing and how many bytes of the peak that \
            concerns. Nobody can say which lines hold those bytes, and a higher peak may lie in what is missing.",
        fires: "On a device that ever held memory, when any of this is so:\n\n\
            - there is no `alloc` event at all;\n\
            - allocations from before the recording (live, but never seen allocated) are at least 10 % of the \
            allocated bytes at the peak, or at least 10 % of those at the end and 1 % of the peak;\n\
            - at least 1 % of the frees name an address that was never seen allocated;\n\
            - the snapshot says `trace_alloc_overflowed`;\n\
            - the recorder says that it lost events, counted fewer allocations than PyTorch did, or a part of the \
            file is damaged or missing;\n\
            - the file ends before the recording did;\n\
            - the recording leaves out `free_requested` or `free_completed` altogether (`skip_actions`).\n\n\
            The last, and unmatched frees alone, are `info`; everything else is a `warning`.",
        why: "Below 10 % of the bytes the table of lines still tells the story. One free in a hundred without its \
            allocation is what a recording has that begins a moment late; a full one has none. Everything else is \
            certain as soon as it happens once.",
        needs: "Nothing: the absence of events is the evidence. The final state of a snapshot (`segments`) shows \
            which blocks came from before.",
        is_not: "It is no fault of the program that was recorded, and no leak. The figures that are shown are right \
            for what was recorded; they may be too low for the whole run.",
        remedy: "Call `torch.cuda.memory._record_memory_history(max_entries=...)` before the model is built, with a \
            ring that holds the whole run or at least a few whole steps, and dump the snapshot before the ring is \
            overwritten. Or record with `memlab run`, which writes events to disk while the job runs and has no \
            ring that could overflow.",
    },
    check: Check::Device(find),
};

/// Why the history is not whole; the most serious first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lack {
    NoAllocations,
    Lost,
    Cut,
    Overwritten,
    Late,
    UnmatchedFrees,
    SkippedActions,
}

fn find(scene: &Scene<'_>) -> Result<Vec<Finding>> {
    if scene.history.peaks.reserved.bytes == 0 && scene.history.peaks.allocated.bytes == 0 {
        return Ok(Vec::new());
    }
    let ghosts = ghosts(scene);
    let losses = Losses::of(scene);
    let lacks = lacks(scene, &ghosts, &losses);
    Ok(lacks.first().map(|&worst| told(scene, &ghosts, &losses, worst)).into_iter().collect())
}

/// What the file says of its own losses. Those of the whole file are told once: of the device with most events.
struct Losses {
    events: u64,
    missing_allocations: u64,
    is_cut: bool,
    is_overwritten: bool,
}

impl Losses {
    fn of(scene: &Scene<'_>) -> Self {
        let devices = scene.trace.devices.iter();
        let busiest = devices.max_by_key(|device| (device.events.len(), std::cmp::Reverse(device.device)));
        let is_busiest = busiest.is_some_and(|device| device.device == scene.id());
        let of_file = |fault| if is_busiest { faults::count(&scene.trace.warnings, fault) } else { 0 };
        let own = faults::count(&scene.history.warnings, Fault::Gap);
        let own = own.saturating_sub(scene.history.warnings.count("unmatched-free"));
        let stated = if is_busiest { scene.trace.process.lost_events } else { 0 };
        Self {
            events: of_file(Fault::Gap).max(stated).saturating_add(own),
            missing_allocations: missing_allocations(scene),
            is_cut: is_busiest && (of_file(Fault::Cut) > 0),
            is_overwritten: of_file(Fault::Overwritten) > 0,
        }
    }
}

/// Allocations that PyTorch counted and the recording does not have.
fn missing_allocations(scene: &Scene<'_>) -> u64 {
    let check = scene.readings.and_then(|readings| readings.check);
    check.map_or(0, |check| check.missing_allocations)
}

fn is_part(part: u64, whole: u64, percent: u64) -> bool {
    part > 0 && u128::from(part) * 100 >= u128::from(whole) * u128::from(percent)
}

fn lacks(scene: &Scene<'_>, ghosts: &Ghosts, losses: &Losses) -> Vec<Lack> {
    let (peak, end) = (scene.history.peaks.allocated.bytes, scene.history.end.allocated_bytes);
    let late = is_part(ghosts.at_peak_bytes, peak, 10)
        || (is_part(ghosts.at_end_bytes, end, 10) && is_part(ghosts.at_end_bytes, peak, 1));
    let completes =
        scene.history.allocations.free_completed_events.iter().any(|&e| e != crate::rebuild::NONE);
    let skipped = (ghosts.requested == 0 && ghosts.completed > 0)
        || (ghosts.completed == 0 && ghosts.requested > 0 && completes);
    // What an excerpt begins with is known, block for block.
    let is_whole = scene.device.excerpt.is_none();
    let all = [
        (Lack::NoAllocations, is_whole && ghosts.allocs == 0),
        (Lack::Lost, losses.events > 0 || losses.missing_allocations > 0),
        (Lack::Cut, losses.is_cut),
        (Lack::Overwritten, is_whole && losses.is_overwritten),
        (Lack::Late, is_whole && late),
        (Lack::UnmatchedFrees, is_part(ghosts.unmatched_frees, ghosts.frees, 1)),
        (Lack::SkippedActions, skipped),
    ];
    all.into_iter().filter(|&(_, holds)| holds).map(|(lack, _)| lack).collect()
}

fn told(scene: &Scene<'_>, ghosts: &Ghosts, losses: &Losses, worst: Lack) -> Finding {
    let severity = if worst >= Lack::UnmatchedFrees { Severity::Info } else { Severity::Warning };
    let steps = scene.steps.rows.len() as u64;
    let mut finding =
        Finding::new(&RULE, severity, scene.id(), ghosts.at_peak_bytes, title(scene, ghosts, losses, worst))
            .evidence("alloc_events", ghosts.allocs)
            .evidence("before_recording_allocations", ghosts.allocations)
            .evidence("before_recording_at_peak_bytes", ghosts.at_peak_bytes)
            .evidence("before_recording_without_stack_bytes", ghosts.at_peak_frameless_bytes)
            .evidence("before_recording_at_end_bytes", ghosts.at_end_bytes)
            .evidence("peak_allocated_bytes", scene.history.peaks.allocated.bytes)
            .evidence("end_allocated_bytes", scene.history.end.allocated_bytes)
            .evidence("uncertain_bytes", scene.history.uncertain_bytes)
            .evidence("frees", ghosts.frees)
            .evidence("unmatched_frees", ghosts.unmatched_frees)
            .evidence("events", scene.history.events)
            .evidence("steps_covered", steps);
    for (name, count) in [("lost_events", losses.events), ("missing_allocations", losses.missing_allocations)]
    {
        if count > 0 {
            finding = finding.evidence(name, count);
        }
    }
    for (name, holds) in [("file_is_cut", losses.is_cut), ("ring_overflowed", losses.is_overwritten)] {
        if holds {
            finding = finding.evidence(name, true);
        }
    }
    finding.remedy(remedy(scene, ghosts, losses, worst))
}

fn title(scene: &Scene<'_>, ghosts: &Ghosts, losses: &Losses, worst: Lack) -> String {
    let peak = scene.history.peaks.allocated.bytes;
    let before = Bytes(ghosts.at_peak_bytes);
    let share = percent(ghosts.at_peak_bytes, peak);
    match worst {
        Lack::NoAllocations => format!("Not one allocation was recorded; {before} were live already"),
        Lack::Lost if losses.events > 0 => {
            format!("Events are missing from the recording ({} faults)", Count(losses.events))
        }
        Lack::Lost => format!(
            "PyTorch made {} allocations that the recording does not have",
            Count(losses.missing_allocations)
        ),
        Lack::Cut => "The file ends before the recording did: what came later is not known".to_owned(),
        Lack::Overwritten => format!(
            "The ring overflowed: only the last {} events are left, and {before} ({share}) of the peak are from before them",
            Count(scene.history.events)
        ),
        Lack::Late if ghosts.at_peak_bytes >= ghosts.at_end_bytes => {
            format!("{before} ({share}) of the peak were allocated before the recording began")
        }
        Lack::Late => format!(
            "{} ({}) of what is live at the end were allocated before the recording began",
            Bytes(ghosts.at_end_bytes),
            percent(ghosts.at_end_bytes, scene.history.end.allocated_bytes)
        ),
        Lack::UnmatchedFrees => format!(
            "{} of {} frees name allocations from before the recording",
            Count(ghosts.unmatched_frees),
            Count(ghosts.frees)
        ),
        Lack::SkippedActions => {
            let left_out = if ghosts.requested == 0 { "free_requested" } else { "free_completed" };
            format!("The recording leaves out {left_out}: frees that wait for other streams are not seen")
        }
    }
}

/// How to record it, and what is not known without.
fn remedy(scene: &Scene<'_>, ghosts: &Ghosts, losses: &Losses, worst: Lack) -> String {
    let unknown = match (ghosts.allocations, ghosts.at_peak_frameless_bytes) {
        (0, _) => String::new(),
        (_, 0) => " Not known is whether there was a higher peak before.".to_owned(),
        (_, bytes) => format!(
            " Not known are the lines of {} at the peak, and whether there was a higher one before.",
            Bytes(bytes)
        ),
    };
    how_to_record(scene, ghosts, losses, worst) + &unknown
}

fn how_to_record(scene: &Scene<'_>, ghosts: &Ghosts, losses: &Losses, worst: Lack) -> String {
    let recorded_by_memlab = is_own_recording(scene.trace);
    let begin = match (recorded_by_memlab, ghosts.allocations > 0) {
        (_, false) => "",
        (true, true) => "Start the recorder before the model is built: `memlab run` does. ",
        (false, true) => "Call torch.cuda.memory._record_memory_history() before the model is built. ",
    };
    let rest = match worst {
        Lack::Lost if recorded_by_memlab => {
            "What was live after the gap may be shown too high or too low. The recorder's warnings say why events \
             were lost; record again with the disk free and no other user of the memory history."
        }
        Lack::Lost | Lack::Cut => "Record or copy the file again: figures cover only what could be read.",
        Lack::SkippedActions => "Record without skip_actions.",
        Lack::Overwritten => return format!("{begin}{}", ring_remedy(scene)),
        _ if losses.is_overwritten || looks_like_a_full_ring(scene, ghosts) => {
            return format!("{begin}{}", ring_remedy(scene));
        }
        Lack::NoAllocations => {
            "If it was called, check that it was not disabled again before the work began."
        }
        _ => "",
    };
    format!("{begin}{rest}").trim_end().to_owned()
}

/// A ring that was full holds as many events as it has entries, which people give as a round number.
fn looks_like_a_full_ring(scene: &Scene<'_>, ghosts: &Ghosts) -> bool {
    let events = scene.history.events;
    events >= 1_000 && events.is_multiple_of(1_000) && ghosts.unmatched_frees > 0
}

fn ring_remedy(scene: &Scene<'_>) -> String {
    let events = scene.history.events;
    let mut text = format!("Raise max_entries: the {} events here", Count(events));
    match scene.steps.rows.len() as u64 {
        0 => text.push_str(" are all that the ring held"),
        steps => text.push_str(&format!(
            " cover {} steps, about {} events each",
            Count(steps),
            Count(events.div_ceil(steps))
        )),
    }
    text + "; or record with `memlab run`, which has no ring."
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::findings::Severity;
    use crate::findings::scene::samples::found;
    use crate::model::{Action, Block, BlockState, Segment, Trace, TraceBuilder};

    const MIB: u64 = 1 << 20;
    const A: u64 = 0x7f00_0000_0000;

    fn rule(trace: &Trace) -> Vec<crate::findings::Finding> {
        found("history-incomplete", trace, None)
    }

    /// A final segment with blocks of these sizes, in MiB.
    fn segment(address: u64, sizes: &[u64]) -> Segment {
        let mut at = address;
        let block = |&size: &u64| {
            let block = Block {
                address: at,
                bytes: size * MIB,
                requested_bytes: size * MIB,
                state: BlockState::ActiveAllocated,
                ..Block::default()
            };
            at += size * MIB;
            block
        };
        let blocks: Vec<Block> = sizes.iter().map(block).collect();
        Segment { address, bytes: sizes.iter().sum::<u64>() * MIB, blocks, ..Segment::default() }
    }

    /// `before` MiB are live when the recording begins, `within` MiB are allocated in it, all live at the end.
    fn begun_with(before: u64, within: u64) -> Trace {
        let other = A + 4096 * MIB;
        TraceBuilder::new()
            .segment_alloc(other, within * MIB)
            .alloc(other, within * MIB)
            .segments(vec![segment(A, &[before]), segment(other, &[within])])
            .build()
    }

    #[test]
    fn a_tenth_from_before_the_recording_is_enough() {
        let late = rule(&begun_with(100, 900));
        assert_eq!(late.len(), 1);
        assert_eq!((late[0].severity, late[0].bytes), (Severity::Warning, 100 * MIB));
        assert_eq!(late[0].evidence["before_recording_allocations"], 1);
        assert!(late[0].remedy.contains("_record_memory_history"));
        assert!(rule(&begun_with(98, 902)).is_empty());
    }

    #[test]
    fn state_without_events_is_no_history() {
        let trace = TraceBuilder::new().segments(vec![segment(A, &[64])]).build();
        let found = rule(&trace);
        assert!(found[0].title.contains("Not one allocation"), "{}", found[0].title);
        assert_eq!(found[0].bytes, 64 * MIB);
        assert!(rule(&TraceBuilder::new().segments(Vec::new()).build()).is_empty());
    }

    #[test]
    fn a_whole_recording_lacks_nothing() {
        let trace = TraceBuilder::new().segment_alloc(A, 20 * MIB).alloc(A, 4 * MIB).free(A, 4 * MIB).build();
        assert!(rule(&trace).is_empty());
    }

    /// `whole` allocations with their frees, and one free of something small from before.
    fn one_unmatched_of(whole: u64) -> Trace {
        let mut builder = TraceBuilder::new().free(A, 512);
        for _ in 1..whole {
            builder = builder.alloc(A + 2 * MIB, 10 * MIB).free(A + 2 * MIB, 10 * MIB);
        }
        builder.segments(vec![segment(A, &[])]).build()
    }

    #[test]
    fn one_free_in_a_hundred_without_its_allocation_is_worth_knowing() {
        let found = rule(&one_unmatched_of(100));
        assert_eq!((found.len(), found[0].severity), (1, Severity::Info));
        assert_eq!(
            (&found[0].evidence["frees"], &found[0].evidence["unmatched_frees"]),
            (&100.into(), &1.into())
        );
        assert!(rule(&one_unmatched_of(101)).is_empty());
    }

    #[test]
    fn what_the_file_says_of_itself_is_believed() {
        let whole =
            || TraceBuilder::new().segment_alloc(A, 20 * MIB).alloc(A, 4 * MIB).free(A, 4 * MIB).build();
        for (kind, word) in
            [("ring-overflowed", "overflowed"), ("truncated", "ends"), ("damaged-chunk", "missing")]
        {
            let mut trace = whole();
            trace.warnings.add(kind, || "x".to_owned());
            let found = rule(&trace);
            assert!(found.len() == 1 && found[0].title.contains(word), "{kind}: {found:?}");
            assert_eq!(found[0].severity, Severity::Warning);
        }
        let mut trace = whole();
        trace.process.lost_events = 40;
        assert_eq!(rule(&trace)[0].evidence["lost_events"], 40);
        trace.process.lost_events = 0;
        trace.warnings.add("unknown-key", || "x".to_owned());
        assert!(rule(&trace).is_empty());
    }

    #[test]
    fn losses_of_a_file_are_told_of_its_busiest_device_only() {
        let mut trace = TraceBuilder::new()
            .segment_alloc(A, 2 * MIB)
            .alloc(A, 512)
            .device(1)
            .segment_alloc(A, 20 * MIB)
            .alloc(A, 4 * MIB)
            .free(A, 4 * MIB)
            .build();
        trace.warnings.add("ring-overflowed", || "x".to_owned());
        assert!(rule(&trace).is_empty(), "the first device has fewer events");
    }

    #[test]
    fn left_out_actions_are_named() {
        let mut builder = TraceBuilder::new().segment_alloc(A, 20 * MIB);
        for _ in 0..4 {
            builder = builder.alloc(A, 4 * MIB).event(Action::FreeCompleted, A, 4 * MIB);
        }
        let found = rule(&builder.build());
        assert!(found[0].title.contains("leaves out free_requested"), "{found:?}");
        let mut builder = TraceBuilder::new().segment_alloc(A, 20 * MIB);
        for _ in 0..4 {
            builder = builder.alloc(A, 4 * MIB).event(Action::FreeRequested, A, 4 * MIB);
        }
        let found = rule(&builder.build());
        assert!(found[0].title.contains("leaves out free_completed"), "{found:?}");
    }

    #[test]
    fn a_round_number_of_events_speaks_of_a_ring() {
        let mut builder = TraceBuilder::new().free(A, 100 * MIB);
        for _ in 0..332 {
            builder = builder.alloc(A + 200 * MIB, MIB).free(A + 200 * MIB, MIB);
        }
        let full = builder.event(Action::Snapshot, 0, 0).event(Action::Snapshot, 0, 0);
        assert!(rule(&full.clone().build())[0].remedy.contains("Raise max_entries: the 1,000 events"));
        assert!(!rule(&full.event(Action::Snapshot, 0, 0).build())[0].remedy.contains("max_entries"));
    }
}
