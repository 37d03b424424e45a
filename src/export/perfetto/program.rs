//! What the program did meanwhile: `record_function` ranges, and the phases, modules and marks of the recorder.
//!
//! Owns how begins and ends are paired: an end closes the latest open range of its name. A range that is open at
//! the end of the recording ends there; one whose begin was not recorded begins at 0. Ranges of several threads
//! overlap, so each kind may take several tracks.

use std::collections::HashMap;

use crate::error::Result;
use crate::model::{MarkKind, Trace};

use super::about;
use super::axis::Axis;
use super::lanes::{Sharing, Span, lanes};
use super::messages::{INSTANT, TrackDescriptor, TrackEvent};
use super::packets::Packets;
use super::spans::write_lane;

/// Tracks per kind: a program has some threads, a hostile file any number of overlaps.
const MOST_TRACKS: usize = 64;

/// A begin, an end, or a moment, as recorded.
struct Note<'t> {
    name: &'t str,
    time_ns: u64,
    begins: Option<bool>,
}

/// Writes all ranges and marks, if the recording has any and its events have times.
pub(super) fn write(packets: &mut Packets<'_>, axis: &Axis, trace: &Trace) -> Result<()> {
    let kinds = [
        ("phases", marks(trace, axis, MarkKind::Phase)),
        ("modules", marks(trace, axis, MarkKind::Module)),
        ("marks", marks(trace, axis, MarkKind::User)),
        ("recorder faults", marks(trace, axis, MarkKind::Fault)),
        ("record_function", annotations(trace, axis)),
    ];
    if kinds.iter().all(|(_, notes)| notes.is_empty()) {
        return Ok(());
    }
    let parent = packets.track(TrackDescriptor {
        name: Some("program".to_owned()),
        description: Some("Ranges and marks that were recorded beside the allocator's events.".to_owned()),
        ..TrackDescriptor::default()
    })?;
    for (rank, (name, notes)) in kinds.iter().enumerate() {
        write_kind(packets, axis, (parent, rank as i32, name), notes)?;
    }
    Ok(())
}

fn marks<'t>(trace: &'t Trace, axis: &Axis, kind: MarkKind) -> Vec<Note<'t>> {
    let wanted = trace.marks.iter().filter(|mark| mark.kind == kind);
    let note = |mark: &'t crate::model::Mark| {
        Some(Note { name: &mark.name, time_ns: axis.time_ns(mark.time_us)?, begins: mark.begins })
    };
    wanted.filter_map(note).collect()
}

fn annotations<'t>(trace: &'t Trace, axis: &Axis) -> Vec<Note<'t>> {
    let note = |range: &crate::model::Annotation| {
        let time_ns = axis.time_ns(range.time_us)?;
        Some(Note { name: trace.strings.get(range.name), time_ns, begins: Some(range.begins) })
    };
    trace.annotations.iter().filter_map(note).collect()
}

/// Writes the ranges and moments of one kind.
fn write_kind(
    packets: &mut Packets<'_>,
    axis: &Axis,
    (parent, rank, name): (u64, i32, &str),
    notes: &[Note<'_>],
) -> Result<()> {
    let (lanes, left_out) = lanes(paired(notes, axis.end_ns), Sharing::Nested, MOST_TRACKS);
    let what = if left_out == 0 {
        String::new()
    } else {
        format!("{left_out} ranges are left out: they overlap more than {MOST_TRACKS} others.")
    };
    for edges in lanes {
        let track = packets.track(about::track(parent, rank, name, what.clone()))?;
        write_lane(packets, track, &edges, |packets, row| TrackEvent {
            name_iid: packets.name(notes[row].name),
            ..TrackEvent::default()
        })?;
    }
    let mut moments = notes.iter().filter(|note| note.begins.is_none()).peekable();
    if moments.peek().is_some() {
        let track = packets.track(about::track(parent, rank, name, String::new()))?;
        for note in moments {
            let name_iid = packets.name(note.name);
            packets.event(
                track,
                note.time_ns,
                TrackEvent { kind: Some(INSTANT), name_iid, ..TrackEvent::default() },
            )?;
        }
    }
    Ok(())
}

/// The ranges of `notes`; a span's row is the note that names it.
fn paired(notes: &[Note<'_>], end_ns: u64) -> Vec<Span> {
    let mut open: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut spans = Vec::new();
    let mut closed = vec![false; notes.len()];
    for (row, note) in notes.iter().enumerate() {
        match note.begins {
            Some(true) => open.entry(note.name).or_default().push(row),
            Some(false) => match open.get_mut(note.name).and_then(Vec::pop) {
                Some(begun) => {
                    closed[begun] = true;
                    let begin = notes[begun].time_ns;
                    spans.push(Span { begin, end: note.time_ns.max(begin), row: begun });
                }
                None => spans.push(Span { begin: 0, end: note.time_ns, row }),
            },
            None => {}
        }
    }
    let left_open = notes.iter().enumerate().filter(|&(row, note)| note.begins == Some(true) && !closed[row]);
    spans.extend(left_open.map(|(row, note)| Span {
        begin: note.time_ns,
        end: end_ns.max(note.time_ns),
        row,
    }));
    // What lies wholly outside the recorded events was moved to its ends.
    spans.retain(|span| span.end > 0 && (span.begin < end_ns || end_ns == 0));
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &str, time_ns: u64, begins: bool) -> Note<'_> {
        Note { name, time_ns, begins: Some(begins) }
    }

    #[test]
    fn ends_close_the_latest_range_of_their_name() {
        let notes = [
            note("lost", 3, false),
            note("a", 5, true),
            note("b", 6, true),
            note("a", 7, true),
            note("a", 8, false),
            note("b", 9, false),
            note("a", 10, false),
            note("open", 11, true),
            note("late", 20, true),
            note("early", 0, true),
            note("early", 0, false),
        ];
        let mut spans: Vec<_> =
            paired(&notes, 20).iter().map(|span| (notes[span.row].name, span.begin, span.end)).collect();
        spans.sort_by_key(|&(_, begin, end)| (begin, end));
        assert_eq!(spans, [("lost", 0, 3), ("a", 5, 10), ("b", 6, 9), ("a", 7, 8), ("open", 11, 20)]);
    }
}
