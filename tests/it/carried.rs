//! Rebuilding piece by piece gives what rebuilding at once gives, to the byte, for every recording.

use memlab::model::{DeviceTrace, Excerpt, Segment, Trace, Warnings};
use memlab::rebuild::{Carried, History, NONE, Peaks, Prelude, Usage, end_differences, piece_end, rebuild};

use crate::inputs::{read, recordings};

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
    for piece in &pieces {
        prelude.take(&piece.events);
    }
    if prelude.must_look_again(segments) {
        for piece in &pieces {
            prelude.take_again(&piece.events);
        }
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
            .map(|row| {
                if let Some(&old) = before.get(row) {
                    return numbers[old as usize];
                }
                found.lives.push((0, 0, 0, [None; 3]));
                found.lives.len() - 1
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
    for path in ["torch", "faults"].iter().flat_map(|folder| recordings(folder)) {
        let name = path.display().to_string();
        if name.contains("big") {
            continue;
        }
        let trace = read(&path);
        // Short pieces of long recordings take their time and show nothing new.
        let short = if trace.event_count() < 10_000 { 97 } else { 1009 };
        for most in [short, 4096] {
            assert_same(&name, &trace, most);
        }
    }
}
