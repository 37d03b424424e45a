//! Chunks of a reduced recording: the report that stands in place of the events.
//!
//! Owns the pieces into which the report is cut and what is said about the original. Does not know what is in the
//! report: to this floor it is bytes.

use std::io;

use crate::model::{LiveSet, Origin, Reduced, Trace};

use super::budget::{self, REPORT_BYTE};
use super::chunk::{Chunk, Kind};
use super::cursor::{Cursor, Fault, Parse};
use super::fields::{read_map, read_pair};
use super::packer::MapPacker;
use super::read::Context;
use super::write::Sink;

/// Bytes of the report in one chunk, as written here.
const PIECE: usize = 8 << 20;

/// Writes the report, if there is one.
pub(super) fn write(sink: &mut Sink<'_>, trace: &Trace) -> io::Result<()> {
    let Some(reduced) = &trace.reduced else { return Ok(()) };
    let pieces: Vec<&[u8]> = reduced.report.chunks(PIECE).collect();
    for (place, piece) in pieces.iter().enumerate() {
        let mut facts = MapPacker::default();
        facts.key("piece").array(2).uint(place as u64).uint(pieces.len() as u64);
        let mut payload = MapPacker::default();
        pack_origin(&mut payload, &reduced.origin);
        payload.key("report").bin(piece);
        sink.emit(Kind::Reduced, facts, payload, |raw_len| budget::rows(raw_len as u64, REPORT_BYTE))?;
    }
    Ok(())
}

fn pack_origin(payload: &mut MapPacker, origin: &Origin) {
    let Origin { name, format, bytes, events, sha256, reduced_by } = origin;
    for (key, text) in [("name", name), ("format", format), ("sha256", sha256), ("reduced_by", reduced_by)] {
        payload.key(key).text(text);
    }
    payload.uint("bytes", *bytes).uint("events", *events);
}

/// A reduced recording while it is read.
#[derive(Debug, Default)]
pub(super) struct ReducedSoFar {
    /// Whether anything says that the file is one.
    pub(super) is_reduced: bool,
    pub(super) live: Vec<LiveSet>,
    origin: Origin,
    report: Vec<u8>,
    pieces_read: u64,
    pieces: u64,
}

impl ReducedSoFar {
    /// The whole of it, or `None` when the report lacks a piece.
    pub(super) fn whole(self) -> Option<Reduced> {
        let is_whole = self.pieces > 0 && self.pieces_read == self.pieces;
        is_whole.then_some(Reduced { origin: self.origin, report: self.report, live: self.live })
    }
}

/// Reads the next piece of the report.
pub(super) fn read(chunk: &Chunk<'_>, context: &mut Context) -> Parse<()> {
    context.reduced.is_reduced = true;
    let (mut place, mut pieces) = (0, 0);
    read_map(chunk.facts, &mut context.trace.warnings, |key, cursor| {
        if key != "piece" {
            return Ok(false);
        }
        (place, pieces) = read_pair(cursor)?;
        Ok(true)
    })?;
    let so_far = &mut context.reduced;
    if place != so_far.pieces_read || place >= pieces || (place > 0 && pieces != so_far.pieces) {
        return Err(Fault::Wrong("a piece of a report that does not follow the one before"));
    }
    if !context.budget.spend(budget::rows(chunk.raw_len as u64, REPORT_BYTE), chunk.end) {
        return Err(Fault::Wrong("a longer report than a file of this length may hold"));
    }
    let payload = chunk.unpack(&mut context.unpacker)?;
    let (mut origin, mut report) = (Origin::default(), &[][..]);
    read_map(payload, &mut context.trace.warnings, |key, cursor| {
        read_key(key, cursor, &mut origin, &mut report)
    })?;
    if place == 0 {
        so_far.origin = origin;
    }
    so_far.report.extend_from_slice(report);
    (so_far.pieces_read, so_far.pieces) = (place + 1, pieces);
    Ok(())
}

fn read_key<'a>(
    key: &str,
    cursor: &mut Cursor<'a>,
    origin: &mut Origin,
    report: &mut &'a [u8],
) -> Parse<bool> {
    match key {
        "name" => origin.name = cursor.text()?.into_owned(),
        "format" => origin.format = cursor.text()?.into_owned(),
        "sha256" => origin.sha256 = cursor.text()?.into_owned(),
        "reduced_by" => origin.reduced_by = cursor.text()?.into_owned(),
        "bytes" => origin.bytes = cursor.uint()?,
        "events" => origin.events = cursor.uint()?,
        "report" => *report = cursor.bin()?,
        _ => return Ok(false),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::chunk::pack;
    use super::super::samples::{packed, tiny};
    use super::super::{Codec, read};
    use super::*;
    use crate::model::{DeviceId, LiveMoment, LiveRow, StackId};

    fn piece(place: u64, pieces: u64, report: &[u8]) -> Vec<u8> {
        let (mut facts, mut payload) = (MapPacker::default(), MapPacker::default());
        facts.key("piece").array(2).uint(place).uint(pieces);
        payload.key("report").bin(report);
        pack(Kind::Reduced, &facts.into_bytes(), &payload.into_bytes(), Codec::Zstd, 3).unwrap()
    }

    fn file(pieces: &[Vec<u8>]) -> Vec<u8> {
        let mut facts = MapPacker::default();
        facts.key("version").array(2).uint(1).uint(2);
        let mut bytes = pack(Kind::Header, &facts.into_bytes(), &[], Codec::None, 0).unwrap();
        bytes.extend(pieces.concat());
        bytes
    }

    /// A trace with a report and live allocations in place of its events.
    fn small() -> Trace {
        let mut trace = tiny();
        trace.devices[0].events = crate::model::Events::default();
        trace.complete = true;
        let row = LiveRow { address: 1 << 46, bytes: 512, stack: StackId(1), live: 3, ..LiveRow::default() };
        let later = LiveRow { alloc_event: Some(7), pending: 2, stream: u64::MAX, ..row };
        let moment = |name: &str, event| LiveMoment { name: name.to_owned(), event };
        let set = LiveSet {
            device: DeviceId(0),
            moments: vec![moment("allocated-peak", None), moment("end", Some(9))],
            rows: [vec![row], vec![later; 70_000]].concat(),
        };
        let origin = Origin { name: "a\u{0}b".to_owned(), bytes: u64::MAX, events: 9, ..Origin::default() };
        trace.reduced = Some(Box::new(Reduced { origin, report: vec![0xc0; 20 << 20], live: vec![set] }));
        trace
    }

    #[test]
    fn all_pieces_and_rows_come_back() {
        let trace = small();
        let again = read(&packed(&trace)).unwrap();
        assert!(again.complete && again.warnings.is_empty(), "{:?}", again.warnings);
        assert_eq!(again.reduced, trace.reduced);
        assert_eq!(again.devices.len(), 1);
    }

    #[test]
    fn pieces_follow_each_other_or_the_file_is_refused() {
        let read = |pieces: &[Vec<u8>]| read(&file(pieces)).map(|trace| trace.reduced.unwrap().report);
        assert_eq!(read(&[piece(0, 2, b"ab"), piece(1, 2, b"c")]).unwrap(), b"abc");
        for pieces in [
            &[piece(0, 2, b"ab")][..],
            &[piece(1, 2, b"c")],
            &[piece(1, 2, b"c"), piece(0, 2, b"ab")],
            &[piece(0, 2, b"ab"), piece(1, 3, b"c")],
            &[piece(0, 0, b"")],
            &[piece(u64::MAX, u64::MAX, b"")],
        ] {
            let error = read(pieces).unwrap_err().to_string();
            assert!(error.contains("its report is damaged or missing"), "{error}");
        }
    }

    #[test]
    fn a_bomb_is_not_taken_for_a_report() {
        let large = vec![0; 8 << 20];
        assert!(read(&file(&[piece(0, 1, &large)])).is_err());
        assert!(read(&file(&[piece(0, 1, &large[..3 << 20])])).is_ok());
    }

    #[test]
    fn a_reduced_file_without_any_whole_piece_is_refused() {
        let bytes = packed(&small());
        let trace = Trace { reduced: None, ..small() };
        assert!(read(&packed(&trace)).unwrap().reduced.is_none());
        let header = bytes.windows(8).skip(1).position(|window| window == b"\x97\xa6memlab").unwrap() + 1;
        assert!(read(&bytes[..header]).unwrap_err().to_string().contains("damaged or missing"));
    }
}
