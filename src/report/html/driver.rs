//! Driver calls in a page: what nvidia-smi sees, who holds the device's memory, what was refused.
//!
//! Owns the order, and how much of it fits. Words are `driver_words`', tables `tables::driver`'s.

use askama::Template;
use askama::filters::HtmlSafe;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::device::Room;
use super::table::Table;
use super::tables;
use super::text::{Name, Prose, Size};
use crate::report::driver::{DriverDeviceRow, DriverJoinRow, DriverReport};
use crate::report::driver_words as words;
use crate::report::svg;
use crate::report::types::TraceReport;
use crate::units::{Bytes, Count};

const ROWS: usize = 100;
const LEAST_ROWS: usize = 6;

/// The sections of `trace`'s driver calls, with as many rows as fit into `bytes`; pictures may take half of them. Empty
/// where no call was recorded.
pub(super) fn sections(trace: &TraceReport, bytes: usize) -> String {
    let Some(driver) = &trace.driver else { return String::new() };
    let mut room = Room { rows: ROWS, pictures: bytes / 2 };
    loop {
        let text = Driver::of(trace, driver, room, bytes).render().unwrap_or_default();
        if text.len() <= bytes || room.rows <= LEAST_ROWS {
            return text;
        }
        room.rows = (room.rows / 2).max(LEAST_ROWS);
    }
}

#[derive(Template)]
#[template(path = "driver.html", config = "src/report/assets/askama.toml")]
struct Driver {
    calls: Prose,
    notes: Vec<Prose>,
    /// Finished HTML.
    devices: String,
    left_out: Option<Count>,
    host: Vec<Table>,
    refused: Option<Table>,
    refused_left_out: Option<Count>,
    symbols: Option<Prose>,
    missing: Option<Table>,
}

impl Driver {
    fn of(trace: &TraceReport, driver: &DriverReport, room: Room, bytes: usize) -> Self {
        let (devices, shown) = devices(trace, driver, room, bytes / 4 * 3);
        let count = |count: u64| (count > 0).then_some(Count(count));
        let host = driver.host.iter().flat_map(|host| {
            let lines = (host.lines.as_slice(), host.lines_left_out);
            let tables = [
                tables::driver_kinds(&host.kinds, 0, room.rows),
                tables::driver_lines(lines, None, 0, room.rows),
            ];
            tables.into_iter().flatten()
        });
        Self {
            calls: Prose::sentence(&words::calls_sentence(driver)),
            notes: words::notes(driver).iter().map(|text| Prose::sentence(text)).collect(),
            devices,
            left_out: count((driver.devices.len() - shown) as u64),
            host: host.collect(),
            refused: tables::refused(&driver.refused, room.rows),
            refused_left_out: count(driver.refused_left_out),
            symbols: words::symbols_sentence(&driver.symbols).map(|text| Prose::sentence(&text)),
            missing: tables::missing(&driver.symbols.missing, room.rows),
        }
    }
}

/// The devices that fit into `bytes`, the first in any case, and how many those are.
fn devices(trace: &TraceReport, driver: &DriverReport, mut room: Room, bytes: usize) -> (String, usize) {
    let mut text = String::new();
    for (place, row) in driver.devices.iter().enumerate() {
        let device = Device::of(trace, driver, row, (place, room));
        room.pictures -= device.picture.as_ref().map_or(0, |picture| picture.source.len());
        let device = device.render().unwrap_or_default();
        if place > 0 && text.len() + device.len() > bytes {
            return (text, place);
        }
        text += &device;
    }
    (text, driver.devices.len())
}

/// One device.
#[derive(Template)]
#[template(path = "driver-device.html", config = "src/report/assets/askama.toml")]
struct Device {
    place: usize,
    number: u32,
    headline: Prose,
    peak: Size,
    end: Size,
    total: Option<Size>,
    sums: Option<Table>,
    about_sums: &'static str,
    picture: Option<Picture>,
    holders: Option<Table>,
    holder_notes: Vec<(Name, Prose)>,
    kinds: Option<Table>,
    about_lines: String,
    lines: Option<Table>,
    join: Option<Join>,
}

impl HtmlSafe for Device {}

/// A static picture; `source` is empty where the page has no room for it.
struct Picture {
    alt: String,
    source: String,
}

/// Segments against the driver's memory.
struct Join {
    segments: Count,
    matched: Count,
    matched_bytes: Size,
    live_segments: Count,
    live_bytes: Size,
    live_matched: Count,
    live_matched_bytes: Size,
    takings: Option<Count>,
}

impl Device {
    fn of(
        trace: &TraceReport,
        driver: &DriverReport,
        row: &DriverDeviceRow,
        (place, room): (usize, Room),
    ) -> Self {
        let lines = (row.lines.as_slice(), row.lines_left_out);
        Self {
            place,
            number: row.device,
            headline: Prose::sentence(&words::headline(driver, row)),
            peak: Size(row.peak_bytes),
            end: Size(row.end_bytes),
            total: row.total_bytes.map(Size),
            sums: tables::sums(row, place),
            about_sums: words::ABOUT_SUMS,
            picture: Picture::of(trace, driver, row, room.pictures),
            holders: tables::driver_holders(row, place, room.rows),
            holder_notes: words::holder_notes(row)
                .take(room.rows)
                .map(|(holder, note)| (Name::new(holder), Prose::sentence(note)))
                .collect(),
            kinds: tables::driver_kinds(&row.kinds, place, room.rows),
            about_lines: words::about_lines(row.join.is_some()),
            lines: tables::driver_lines(lines, Some(row.peak_bytes), place, room.rows),
            join: row.join.as_ref().map(Join::of),
        }
    }
}

impl Picture {
    /// The timeline as a `data:` address of at most `room` bytes; `None` where there is nothing to draw.
    fn of(trace: &TraceReport, driver: &DriverReport, row: &DriverDeviceRow, room: usize) -> Option<Self> {
        let svg = svg::driver_timeline_svg(trace, driver, row)?;
        let mut source = format!("data:image/svg+xml;base64,{}", STANDARD.encode(&svg));
        if source.len() > room {
            source.clear();
        }
        let (peak, end) = (Bytes(row.peak_bytes), Bytes(row.end_bytes));
        let alt = format!("Driver memory over time, stacked by holder: peak {peak}, {end} at the end.");
        Some(Self { alt, source })
    }
}

impl Join {
    fn of(row: &DriverJoinRow) -> Self {
        Self {
            segments: Count(row.segments),
            matched: Count(row.matched),
            matched_bytes: Size(row.matched_bytes),
            live_segments: Count(row.live_segments),
            live_bytes: Size(row.live_bytes),
            live_matched: Count(row.live_matched),
            live_matched_bytes: Size(row.live_matched_bytes),
            takings: (row.takings_without_segment > 0).then_some(Count(row.takings_without_segment)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Report, driver_fixture, escape, fixtures};

    const ROOM: usize = 200_000;

    fn shown(report: &Report) -> String {
        sections(&report.traces[0], ROOM)
    }

    /// Less the picture, which is reviewed elsewhere.
    fn reviewed(text: &str) -> String {
        let (before, rest) = text.split_once("base64,").unwrap();
        let (_, after) = rest.split_once('"').unwrap();
        format!("{before}base64,...\"{after}")
    }

    #[test]
    fn the_sections_are_as_agreed() {
        insta::assert_snapshot!("html_driver", reviewed(&shown(&driver_fixture::full())));
        insta::assert_snapshot!("html_driver_leaks", reviewed(&shown(&driver_fixture::leaks())));
    }

    #[test]
    fn without_calls_there_are_no_sections_and_without_samples_no_picture() {
        assert_eq!(shown(&fixtures::normal()), "");
        let mut report = driver_fixture::leaks();
        report.traces[0].driver.as_mut().unwrap().devices[0].timeline = crate::report::Timeline::default();
        assert!(!shown(&report).contains("<img") && !shown(&report).contains("no room"));
        assert!(sections(&driver_fixture::leaks().traces[0], 300).contains("no room for the picture"));
    }

    #[test]
    fn hostile_names_are_text() {
        for report in [driver_fixture::full(), driver_fixture::leaks()] {
            let text = shown(&driver_fixture::hostile(report));
            assert!(!text.contains("<script") && text.contains("&lt;script&gt;"));
            assert!(!text.chars().any(|c| c != '\n' && escape::is_invisible(c)));
        }
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let mut report = driver_fixture::many(5_000);
        let text = shown(&report);
        assert!(text.len() <= ROOM && text.contains("more: see report.json"), "{}", text.len());
        let driver = report.traces[0].driver.as_mut().unwrap();
        driver.devices = vec![driver.devices[0].clone(); 300];
        let text = shown(&report);
        assert!(text.len() <= ROOM && text.contains("more devices"), "{}", text.len());
    }
}
