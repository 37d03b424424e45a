use std::path::Path;

use super::*;
use crate::import::{ReadOptions, read_path};
use crate::model::{Excerpt, TraceBuilder};
use crate::rebuild::{Moment, Peaks, Usage, rebuild};

/// An allocation's life as whoever looks at the whole recording sees it.
type Life = (u64, u64, u64, [Option<u64>; 3]);

/// A recording rebuilt in pieces of at most `most` events, put together again.
#[derive(Debug, Default, PartialEq)]
struct Whole {
    lives: Vec<Life>,
    initial: Usage,
    end: Usage,
    peaks: [(u64, u64); 4],
    ooms: Vec<(u64, Usage)>,
    uncertain: (u64, u64),
    warnings: Vec<(String, u64)>,
}

fn four(peaks: &Peaks, first: u64) -> [(u64, u64); 4] {
    [peaks.requested, peaks.allocated, peaks.active, peaks.reserved]
        .map(|peak| (peak.bytes, first + peak.moment.0))
}

fn warnings(history: &History) -> Vec<(String, u64)> {
    history.warnings.iter().map(|warning| (warning.kind.to_owned(), warning.count)).collect()
}

fn global(event: u32, first: u64) -> Option<u64> {
    (event != NONE).then(|| first + u64::from(event))
}

fn life(history: &History, row: usize) -> Life {
    let (rows, first) = (&history.allocations, history.first_event);
    let events = [rows.alloc_events[row], rows.free_requested_events[row], rows.free_completed_events[row]];
    (
        rows.addresses[row],
        rows.requested_bytes[row],
        rows.block_bytes[row],
        events.map(|event| global(event, first)),
    )
}

fn whole(trace: &Trace, device: &DeviceTrace) -> Whole {
    let history = rebuild(trace, device);
    Whole {
        lives: (0..history.allocations.len()).map(|row| life(&history, row)).collect(),
        initial: history.initial,
        end: history.end,
        peaks: four(&history.peaks, 0),
        ooms: history.ooms.iter().map(|oom| (oom.event, oom.usage)).collect(),
        uncertain: (history.uncertain_allocations, history.uncertain_bytes),
        warnings: warnings(&history),
    }
}

/// The pieces of `device`, each with no more than `most` events.
fn pieces(device: &DeviceTrace, most: usize) -> Vec<DeviceTrace> {
    let (mut rest, mut first, mut found) = (device.events.clone(), 0, Vec::new());
    while !rest.is_empty() {
        let end = piece_end(&rest, most);
        let behind = rest.split_off(end);
        let excerpt = Some(Excerpt { first_event: first, ..Excerpt::default() });
        first += end as u64;
        found.push(DeviceTrace { events: rest, excerpt, ..device.clone() });
        rest = behind;
    }
    found
}

fn in_pieces(trace: &Trace, device: &DeviceTrace, most: usize) -> Whole {
    let segments = device.segments.as_deref();
    let pieces = pieces(device, most);
    let mut prelude = Prelude::default();
    pieces.iter().for_each(|piece| prelude.take(&piece.events));
    if prelude.must_look_again(segments) {
        pieces.iter().for_each(|piece| prelude.take_again(&piece.events));
    }
    let mut carried = prelude.finish(segments, &trace.settings);
    loop {
        let found = one_round(trace, &pieces, &mut carried, segments);
        if !carried.corrects_itself() {
            return Whole { uncertain: carried.uncertain(), ..found };
        }
    }
}

fn one_round(
    trace: &Trace,
    pieces: &[DeviceTrace],
    carried: &mut Carried,
    segments: Option<&[Segment]>,
) -> Whole {
    let mut found = Whole::default();
    let mut peaks: Option<[(u64, u64); 4]> = None;
    let mut numbers: Vec<usize> = Vec::new();
    let mut told = Warnings::default();
    for (number, piece) in pieces.iter().enumerate() {
        let before = carried.rows().to_vec();
        let history = carried.next(trace, piece);
        if number == 0 {
            found.initial = history.initial;
        } else {
            assert_eq!(history.initial, found.end, "a piece begins as the one before ended");
        }
        found.end = history.end;
        let own = four(&history.peaks, history.first_event);
        let highest = peaks.get_or_insert(own);
        for (highest, own) in highest.iter_mut().zip(own) {
            if own.0 > highest.0 {
                *highest = own;
            }
        }
        found.ooms.extend(history.ooms.iter().map(|oom| (oom.event + history.first_event, oom.usage)));
        numbers = (0..history.allocations.len())
            .map(|row| match before.get(row) {
                Some(&old) => numbers[old as usize],
                None => {
                    found.lives.push((0, 0, 0, [None; 3]));
                    found.lives.len() - 1
                }
            })
            .collect();
        for (row, &number) in numbers.iter().enumerate() {
            let (address, requested, bytes, events) = life(&history, row);
            let known = &mut found.lives[number];
            let begun = known.3[0].or(events[0]);
            *known = (address, requested, bytes, [begun, known.3[1].or(events[1]), events[2]]);
        }
        told.merge(history.warnings.clone());
        if number + 1 == pieces.len() {
            told.merge(end_differences(trace, segments, &history));
        }
    }
    found.peaks = peaks.unwrap_or_default();
    found.warnings = told.iter().map(|warning| (warning.kind.to_owned(), warning.count)).collect();
    found
}

fn assert_same(name: &str, trace: &Trace, most: usize) {
    for device in trace.devices.iter().filter(|device| !device.events.is_empty()) {
        let (one, many) = (whole(trace, device), in_pieces(trace, device, most));
        assert_eq!(one.lives.len(), many.lives.len(), "{name}");
        for (one, many) in one.lives.iter().zip(&many.lives) {
            assert_eq!(one, many, "{name}, pieces of {most}");
        }
        assert_eq!(Whole { lives: Vec::new(), ..one }, Whole { lives: Vec::new(), ..many }, "{name}, {most}");
    }
}

#[test]
fn pieces_say_what_the_whole_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut names: Vec<_> = ["torch", "emitter"]
        .iter()
        .flat_map(|part| std::fs::read_dir(folder.join(part)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            (name.contains(".pickle") || name.ends_with(".msgpack")) && !name.starts_with("big")
        })
        .collect();
    names.sort();
    assert!(names.len() > 20, "{}", names.len());
    for path in names {
        let name = path.display().to_string();
        let trace = read_path(&path, &ReadOptions::default(), &|_, _| ()).unwrap();
        // Short pieces of long recordings take their time and show nothing new.
        let short = if trace.event_count() < 10_000 { 97 } else { 1009 };
        for most in [short, 4096] {
            assert_same(&name, &trace, most);
        }
    }
}

#[test]
fn a_state_is_as_good_as_all_that_led_to_it() {
    const A: u64 = 0x7f00_0000_0000;
    let trace = TraceBuilder::new()
        .segment_alloc(A, 20 << 20)
        .alloc(A, 5 << 20)
        .alloc(A + (5 << 20), 3 << 20)
        .free_requested(A, 5 << 20)
        .alloc(A + (8 << 20), 7)
        .free_completed(A, 5 << 20)
        .alloc(A, 1 << 20)
        .build();
    let device = &trace.devices[0];
    let history = rebuild(&trace, device);
    let parts = pieces(device, 5);
    assert_eq!(parts.len(), 2);
    let mut carried = Carried::from_state(&[], &trace.settings);
    let first = carried.next(&trace, &parts[0]);
    let segments = carried.segments();
    assert_eq!(segments[0].stated_bytes, [3 << 20 | 512, 8 << 20 | 512, 8 << 20 | 7]);
    assert_eq!(segments[0].blocks.iter().map(|block| block.bytes).sum::<u64>(), 20 << 20);
    let excerpt = Excerpt { first_event: 5, recorded_events: 7, segments };
    let tail = DeviceTrace { excerpt: Some(excerpt), ..parts[1].clone() };
    let rest = rebuild(&trace, &tail);
    assert_eq!((rest.initial, rest.end, rest.first_event), (first.end, history.end, 5));
    assert_eq!(rest.state_at(Moment(rest.events)).segments[0].blocks.len(), 5);
}
