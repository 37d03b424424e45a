//! One device of a page: key figures, the places of the views, the tables.
//!
//! Owns the order. The views are drawn by the page's script into the places left for them; until then, and
//! without scripts, the static picture stands there.

use askama::Template;
use askama::filters::HtmlSafe;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::table::Table;
use super::text::{Prose, Size};
use super::{tables, verdict};
use crate::report::recorded::{CensusRow, OutsideRow, SelfCheckRow};
use crate::report::types::{DeviceReport, TraceReport};
use crate::report::verdict as words;
use crate::report::{steps_table, svg};
use crate::units::{Bytes, Count, percent};

/// What of a device a page has room for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Rows of a table that stand in the page itself. The script has all of the long ones, the JSON of all.
    pub(super) rows: usize,
    /// Bytes that both pictures together may take.
    pub(super) pictures: usize,
}

/// The sections of a device.
#[derive(Template)]
#[template(path = "device.html", config = "src/report/assets/askama.toml")]
pub(super) struct Device {
    place: usize,
    label: Prose,
    several: bool,
    events: Count,
    peak_allocated: Size,
    peak_reserved: Size,
    end_allocated: Size,
    unused_share: String,
    counters: Table,
    timeline: Picture,
    lines: Table,
    line_rule: Prose,
    group_by: Prose,
    steps_sentence: Prose,
    steps: Option<Table>,
    categories: Option<Table>,
    category_rule: Prose,
    modules: Option<Table>,
    modules_sentence: String,
    totals: Table,
    causes: Table,
    pins_sentence: String,
    pins: Option<Table>,
    fragmentation: Picture,
    live: Vec<Table>,
    ooms: Option<Table>,
    help: Option<(Prose, Table)>,
    pools: Option<Table>,
    names: Option<Table>,
    names_sentence: String,
    holders: Option<Table>,
    outside: Option<String>,
    self_check: Option<Prose>,
}

impl HtmlSafe for Device {}

/// A static picture, or why there is none.
struct Picture {
    alt: String,
    /// As a `data:` address; empty where the page has no room for it.
    source: String,
}

impl Device {
    pub(super) fn of(trace: &TraceReport, place: usize, room: Room) -> Option<Self> {
        let device = trace.devices.get(place)?;
        let moments = tables::moments(device);
        let (moment, telling) = words::telling_fragmentation(device);
        let census = device.census.as_ref();
        let [timeline, fragmentation] = pictures(trace, device, room.pictures);
        Some(Self {
            place,
            label: Prose::new(&verdict::label(device)),
            several: trace.devices.len() > 1,
            events: Count(device.events),
            peak_allocated: Size(device.peak.allocated_bytes),
            peak_reserved: Size(device.peak.reserved_bytes),
            end_allocated: Size(device.end.allocated_bytes),
            unused_share: format!("{:.1} %", device.fragmentation.at_peak.ratio * 100.0),
            counters: tables::counters(device, place),
            timeline,
            lines: tables::lines(device, place, room.rows),
            line_rule: Prose::sentence(&device.line_rule),
            group_by: Prose::new(&device.group_by),
            steps_sentence: Prose::sentence(&steps_table::sentence(&device.steps)),
            steps: tables::steps(&device.steps, place, room.rows),
            categories: tables::categories(device, place, room.rows),
            category_rule: Prose::sentence(&device.categories.rule),
            modules: device
                .modules
                .as_ref()
                .map(|modules| tables::modules(modules, device.peak.allocated_bytes, place, room.rows)),
            modules_sentence: modules_sentence(device),
            totals: tables::totals(&moments, place),
            causes: tables::by_cause(&moments, place),
            pins_sentence: format!(
                "{} stranded in {} free blocks {moment}, pinned by:",
                Bytes(telling.stranded_bytes),
                Count(telling.stranded_blocks)
            ),
            pins: tables::pins(telling, place, room.rows),
            fragmentation,
            live: tables::live(trace, device, place, room.rows),
            ooms: tables::ooms(&device.ooms, place, room.rows),
            help: device
                .what_would_help
                .as_ref()
                .map(|help| (Prose::new(&help.recommendation.reason), tables::what_would_help(help, place))),
            pools: tables::pools(&device.pools, place, room.rows),
            names: census.and_then(|census| tables::names(census, place, room.rows)),
            names_sentence: census.map(names_sentence).unwrap_or_default(),
            holders: census.and_then(|census| tables::holders(census, place, room.rows)),
            outside: device.outside.as_ref().map(outside),
            self_check: device.self_check.as_ref().map(self_check),
        })
    }

    fn has_recorded(&self) -> bool {
        self.names.is_some() || self.holders.is_some() || self.outside.is_some() || self.self_check.is_some()
    }
}

/// Both pictures, as far as they fit into `room` bytes.
fn pictures(trace: &TraceReport, device: &DeviceReport, mut room: usize) -> [Picture; 2] {
    let peaks = format!(
        "peak {} allocated of {} reserved",
        Bytes(device.peak.allocated_bytes),
        Bytes(device.peak.reserved_bytes)
    );
    let alts = [
        format!("Allocated memory over time, stacked by line of code, under reserved memory: {peaks}."),
        format!("Reserved memory over time and where its unused part lies: {peaks}."),
    ];
    let drawn = [svg::timeline_svg(trace, device), svg::fragmentation_svg(trace, device)];
    let mut drawn = drawn.into_iter().zip(alts).map(|(svg, alt)| {
        let mut source = format!("data:image/svg+xml;base64,{}", STANDARD.encode(&svg));
        match room.checked_sub(source.len()) {
            Some(left) => room = left,
            None => source.clear(),
        }
        Picture { alt, source }
    });
    [(); 2].map(|()| drawn.next().unwrap_or(Picture { alt: String::new(), source: String::new() }))
}

fn modules_sentence(device: &DeviceReport) -> String {
    let Some(modules) = &device.modules else { return String::new() };
    format!(
        "Of {} allocated in backward passes, {} ({}) carry a module's name.",
        Bytes(modules.backward_bytes),
        Bytes(modules.backward_named_bytes),
        percent(modules.backward_named_bytes, modules.backward_bytes)
    )
}

fn names_sentence(census: &CensusRow) -> String {
    let mut text = format!("Censuses of live tensors: {}.", Count(census.count));
    for (count, what) in
        [(census.tensors_left_out, "named allocations"), (census.holders_left_out, "holders")]
    {
        if count > 0 {
            text += &format!(" {} more {what} are left out.", Count(count));
        }
    }
    if census.unmatched_tensors > 0 {
        let (tensors, bytes) = (Count(census.unmatched_tensors), Bytes(census.unmatched_bytes));
        text += &format!(" {tensors} named tensors ({bytes}) match no live allocation.");
    }
    text
}

fn outside(outside: &OutsideRow) -> String {
    format!(
        "Outside the allocator: at most {}{}, {} at the end: of {} on the device the driver had {} left and \
         PyTorch's allocator {} reserved. From {} samples. Contexts, libraries, other allocators and other processes.",
        Bytes(outside.max_bytes),
        outside.max_event.map(|event| format!(" (event {})", Count(event))).unwrap_or_default(),
        Bytes(outside.end_bytes),
        Bytes(outside.total_bytes),
        Bytes(outside.free_bytes),
        Bytes(outside.reserved_bytes),
        Count(outside.samples),
    )
}

fn self_check(check: &SelfCheckRow) -> Prose {
    let mut text = format!(
        "Self-check: PyTorch's own counters equal the rebuilt ones at {} of {} samples.",
        Count(check.equal),
        Count(check.samples)
    );
    if let Some(first) = &check.first_difference {
        let (counter, recorded, rebuilt) = (&first.counter, first.recorded, first.rebuilt);
        text += &format!(" First difference: {counter} was {recorded}, rebuilt {rebuilt}.");
    }
    if check.missing_allocations > 0 {
        text += &format!(" {} allocations were not recorded.", Count(check.missing_allocations));
    }
    Prose::new(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    #[test]
    fn a_picture_without_room_is_left_out_and_said() {
        let report = fixtures::oom();
        let shown = |pictures| {
            let room = Room { rows: 5, pictures };
            Device::of(&report.traces[0], 0, room).unwrap().render().unwrap()
        };
        assert_eq!(shown(900_000).matches("src=\"data:image/svg+xml;base64,").count(), 2);
        assert!(!shown(100).contains("<img") && shown(100).contains("no room for"), "{}", shown(100));
    }

    #[test]
    fn the_places_of_the_views_are_as_agreed_with_the_scripts() {
        let report = fixtures::oom();
        let room = Room { rows: 5, pictures: 900_000 };
        let text = Device::of(&report.traces[0], 0, room).unwrap().render().unwrap();
        for view in ["timeline", "state", "flame"] {
            let place = format!("<section class=\"view {view}\" id=\"{view}-0\" data-device=\"0\">");
            let after = text.split(&place).nth(1).unwrap();
            assert!(after.split("</section>").next().unwrap().contains("<div class=\"mount\">"));
        }
        assert!(Device::of(&report.traces[0], 1, room).is_none());
    }
}
