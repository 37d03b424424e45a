//! `segments.svg`: the allocator's segments to scale, at the last OOM or when reserved bytes peak.
//!
//! Owns what is drawn of a segment, the sums in the legend, and the words on what was summed up. Where segments
//! stand is `segment_rows`', what of their blocks is drawn `segment_runs`'.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::legend::{Row, Swatch};
use super::palette::{AXIS, FREE, Ink, MUTED, OOM, PANEL, TEXT, of_rank};
use super::picture::SIDE;
use super::segment_rows::{Map, Piece, Pool, ROW_WIDTH, Shown, map};
use super::segment_runs::{Run, runs};
use super::segment_sums::Sums;
use super::sheet::{Area, Head, Hold, Sheet, fitted};
use crate::report::escape::{short_name, terminal};
use crate::report::pictures::{MapSegment, MapState, Pictures, SegmentMap};
use crate::report::types::{DeviceReport, TraceReport};
use crate::units::{Bytes, Count, percent};

const TOP: f64 = 72.0;
const HEIGHT: f64 = 15.0;
const PITCH: f64 = 20.0;
const HEADING: f64 = 22.0;
/// What is drawn at most: a picture with more of it is merged more coarsely.
const MOST_RUNS: usize = 1_800;
/// Rows at most, whatever sizes a damaged recording states.
const MOST_ROWS: usize = 48;
/// Rows at most for the request that failed.
const MOST_ASKED_ROWS: u64 = 4;
/// A block this wide or wider stands apart from its neighbour.
const APART: f64 = 3.0;

/// The picture of `device`.
pub(super) fn render(trace: &TraceReport, device: &DeviceReport) -> String {
    let shown = &device.pictures.segments;
    let sums = Sums::of(shown);
    let (title, subtitle) = (super::title("Segments", trace, device), subtitle(shown, &sums));
    let description = format!(
        "Every segment that the allocator holds, to scale: blocks in the colours of their lines, holes light. {subtitle}."
    );
    let head = Head { title: &title, subtitle: &subtitle, description: &description };
    let map = map(&shown.segments);
    let least = least_bytes(&map);
    fitted(|characters| {
        let drawing = Drawing { pictures: &device.pictures, map: &map, least, characters };
        drawing.draw(&head, &sums)
    })
}

fn subtitle(shown: &SegmentMap, sums: &Sums) -> String {
    let moment = match (shown.asked_bytes, shown.event) {
        (Some(asked), Some(event)) => format!("At the OOM (event {}, {} asked)", Count(event), Bytes(asked)),
        (_, Some(event)) => format!("When reserved bytes peak (event {})", Count(event)),
        (_, None) => "When reserved bytes peak (before the first event)".to_owned(),
    };
    let reserved = sums.reserved();
    format!(
        "{moment}: {} reserved, {} free but pinned ({}), {} wholly free",
        Bytes(reserved),
        Bytes(sums.pinned_bytes),
        percent(sums.pinned_bytes, reserved),
        Bytes(sums.wholly_free_bytes)
    )
}

/// The fewest bytes that are drawn by themselves: a pixel, or more where that would be too many.
fn least_bytes(map: &Map<'_>) -> u64 {
    let mut pixels = 1.0;
    loop {
        let least = (map.row_bytes as f64 / ROW_WIDTH * pixels).ceil() as u64;
        let pieces = map.pools.iter().flat_map(|pool| pool.rows.iter().take(MOST_ROWS).flatten());
        let count: usize = pieces.map(|piece| runs(piece, least).len()).sum();
        if count <= MOST_RUNS || pixels > ROW_WIDTH {
            return least;
        }
        pixels *= 1.5;
    }
}

struct Drawing<'a> {
    pictures: &'a Pictures,
    map: &'a Map<'a>,
    least: u64,
    /// Most characters of a name in a tooltip.
    characters: usize,
}

impl Drawing<'_> {
    fn draw(&self, head: &Head<'_>, sums: &Sums) -> String {
        let mut sheet = Sheet::default();
        let mut y = TOP;
        let mut left = MOST_ROWS;
        for pool in &self.map.pools {
            y = self.pool(&mut sheet, pool, y, &mut left);
        }
        y = self.asked(&mut sheet, y);
        for note in self.notes(sums) {
            sheet.text(MUTED.class, (f64::from(SIDE), y + 14.0), Hold::Start, &note);
            y += 18.0;
        }
        let rows = sums.legend(self.pictures);
        let end = sheet.legend(TOP, "held then, and its share of reserved", &rows);
        sheet.finish(head, y.max(end).max(200.0) + 14.0)
    }

    /// Draws a pool from `y` on and returns where it ends.
    fn pool(&self, sheet: &mut Sheet, pool: &Pool<'_>, mut y: f64, left: &mut usize) -> f64 {
        sheet.text(TEXT.class, (f64::from(SIDE), y + 13.0), Hold::Start, &pool.heading);
        y += HEADING;
        for row in pool.rows.iter().take(*left) {
            // The rows of one segment touch: it reads as one.
            if row.first().is_some_and(|piece| piece.from > 0) {
                y -= PITCH - HEIGHT;
            }
            for piece in row {
                self.piece(sheet, piece, y);
            }
            y += PITCH;
        }
        *left = left.saturating_sub(pool.rows.len());
        y + 4.0
    }

    fn piece(&self, sheet: &mut Sheet, piece: &Piece<'_>, y: f64) {
        let title = match &piece.shown {
            Shown::Segment(segment) => describe(segment),
            Shown::Sum(_, count) => format!("{} segments summed up, not by address", Count(*count)),
        };
        sheet.open(f64::from(SIDE) + piece.x, y, &title);
        let is_free = piece.shown.blocks().iter().all(|block| block.state == MapState::Free);
        let pins = if is_free { String::new() } else { self.pins(piece) };
        for run in runs(piece, self.least) {
            self.run(sheet, &run, is_free, &pins, matches!(piece.shown, Shown::Sum(..)));
        }
        let width = self.map.pixels(piece.bytes);
        sheet.edge(AXIS, Area { x: 0.0, y: 0.0, width, height: HEIGHT }, is_free);
        sheet.close();
    }

    fn run(&self, sheet: &mut Sheet, run: &Run, is_free: bool, pins: &str, is_sum: bool) {
        let (x, mut width) = (self.map.pixels(run.from), self.map.pixels(run.bytes));
        let block = run.largest;
        let rounding = self.map.pixels(block.bytes.saturating_sub(block.requested_bytes));
        if width > APART && block.state != MapState::Free {
            width -= 0.7;
        }
        let area = Area { x, y: 0.0, width, height: HEIGHT };
        let title = if is_sum { self.sum_title(run, is_free) } else { self.title(run, is_free, pins) };
        let ink = match block.state {
            MapState::Free if is_free => PANEL,
            MapState::Free => FREE,
            MapState::InUse | MapState::Pending => of_rank(block.rank),
        };
        sheet.fill(ink, area, &title);
        match block.state {
            MapState::Pending => sheet.hatch(area),
            // Only what can be seen: a pixel and more, of a block that is drawn whole.
            MapState::InUse if rounding >= 1.0 && run.bytes == block.bytes && run.blocks == 1 && !is_sum => {
                sheet.veil(Area { x: x + width - rounding, width: rounding, ..area });
            }
            MapState::InUse | MapState::Free => {}
        }
    }

    fn title(&self, run: &Run, is_free: bool, pins: &str) -> String {
        let block = run.largest;
        if run.blocks > 1 {
            let parts =
                [(run.in_use_bytes, "in use"), (run.pending_bytes, "pending"), (run.free_bytes, "free")];
            let parts = parts.into_iter().filter(|(bytes, _)| *bytes > 0);
            let parts: Vec<String> = parts.map(|(bytes, what)| format!("{} {what}", exact(bytes))).collect();
            return format!("{} blocks: {}", Count(run.blocks), parts.join(", "));
        }
        match block.state {
            MapState::Free if is_free => format!("free: {}, a whole segment", exact(block.bytes)),
            MapState::Free => format!("free: {}, pinned by {pins}", exact(block.bytes)),
            MapState::Pending => {
                format!("{}: {}, freed, waits for a stream", self.line(block.rank), exact(block.bytes))
            }
            MapState::InUse => {
                let rounding = block.bytes.saturating_sub(block.requested_bytes);
                let rounding = if rounding > 0 {
                    format!(", {} of it rounding", Bytes(rounding))
                } else {
                    String::new()
                };
                format!("{}: {}{rounding}", self.line(block.rank), exact(block.bytes))
            }
        }
    }

    fn sum_title(&self, run: &Run, is_free: bool) -> String {
        let what = match run.largest.state {
            MapState::Free if is_free => "wholly free segments".to_owned(),
            MapState::Free => "free".to_owned(),
            MapState::Pending => format!("{}, freed, waits for a stream", self.line(run.largest.rank)),
            MapState::InUse => self.line(run.largest.rank),
        };
        format!("{what}: {}", exact(run.bytes))
    }

    fn line(&self, rank: Option<u32>) -> String {
        let name = rank.and_then(|rank| self.pictures.line_names.get(rank as usize));
        name.map_or_else(
            || "no line known".to_owned(),
            |name| short_name(&terminal(name), self.characters).into_owned(),
        )
    }

    /// Whose blocks keep a segment from being returned, most bytes first.
    fn pins(&self, piece: &Piece<'_>) -> String {
        let mut sums: BTreeMap<Option<u32>, (u64, u64)> = BTreeMap::new();
        for block in piece.shown.blocks().iter().filter(|block| block.state != MapState::Free) {
            let sum = sums.entry(block.rank).or_default();
            *sum = (sum.0.saturating_add(block.bytes), sum.1 + 1);
        }
        let mut lines: Vec<_> =
            sums.into_iter().map(|(rank, (bytes, blocks))| (rank, bytes, blocks)).collect();
        lines.sort_by_key(|&(rank, bytes, _)| (Reverse(bytes), rank));
        let Some(&(rank, bytes, blocks)) = lines.first() else { return String::new() };
        let blocks = if blocks == 1 { "1 block".to_owned() } else { format!("{} blocks", Count(blocks)) };
        let more = match lines.len() {
            1 => String::new(),
            2 => " and 1 other line".to_owned(),
            count => format!(" and {} other lines", Count(count as u64 - 1)),
        };
        format!("{} ({blocks}, {}){more}", self.line(rank), Bytes(bytes))
    }

    /// The request that failed, to the same scale.
    fn asked(&self, sheet: &mut Sheet, mut y: f64) -> f64 {
        let Some(asked) = self.pictures.segments.asked_bytes else { return y };
        let rows = asked.div_ceil(self.map.row_bytes.max(1));
        if asked == 0 || rows > MOST_ASKED_ROWS {
            return y;
        }
        let heading = format!("asked in one piece, to the same scale: {}", Bytes(asked));
        sheet.text(OOM.class, (f64::from(SIDE), y + 13.0), Hold::Start, &heading);
        y += HEADING;
        for row in 0..rows {
            let bytes = (asked - row * self.map.row_bytes).min(self.map.row_bytes);
            let width = self.map.pixels(bytes);
            sheet.edge(OOM, Area { x: f64::from(SIDE), y, width, height: HEIGHT }, false);
            y += HEIGHT;
        }
        y + PITCH - HEIGHT + 4.0
    }

    /// The scale, and what was summed up.
    fn notes(&self, sums: &Sums) -> Vec<String> {
        if self.map.pools.is_empty() {
            return vec!["Nothing is reserved.".to_owned()];
        }
        let mut notes = vec![format!(
            "A full row is {}; a longer segment goes on in the next rows.",
            Bytes(self.map.row_bytes)
        )];
        let summed = self
            .map
            .pools
            .iter()
            .fold((0, 0u64), |sum, pool| (sum.0 + pool.summed.0, sum.1.saturating_add(pool.summed.1)));
        if summed.0 > 0 {
            let (count, bytes) = (Count(summed.0), Bytes(summed.1));
            notes.push(format!(
                "{count} narrow segments ({bytes}) are summed up by line, not drawn by address."
            ));
        }
        if sums.smallest_bytes < self.least {
            notes.push(format!(
                "Blocks under {} are drawn in runs, in the colour of the largest.",
                Bytes(self.least)
            ));
        }
        if let Some(bytes) = self.pictures.segments.just_obtained_bytes {
            notes
                .push(format!("{} were obtained just now, for the request of the next event.", Bytes(bytes)));
        }
        let rows: usize = self.map.pools.iter().map(|pool| pool.rows.len()).sum();
        if rows > MOST_ROWS {
            notes.push(format!("{} more rows are not drawn.", Count((rows - MOST_ROWS) as u64)));
        }
        notes
    }
}

fn exact(bytes: u64) -> String {
    if bytes < 1024 { Bytes(bytes).to_string() } else { format!("{} ({} B)", Bytes(bytes), Count(bytes)) }
}

fn describe(segment: &MapSegment) -> String {
    let what = if segment.is_expandable { "expandable segment" } else { "segment" };
    format!(
        "{what} at {:#x}: {}, {} blocks",
        segment.address,
        exact(segment.bytes),
        Count(segment.blocks.len() as u64)
    )
}

impl Row {
    /// A band with its share of `whole`.
    pub(super) fn share(swatch: Swatch, ink: Ink, name: String, bytes: u64, whole: u64) -> Self {
        Self { swatch, ink, name, bytes: Bytes(bytes).to_string(), note: percent(bytes, whole) }
    }
}
