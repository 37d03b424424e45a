//! `flamegraph.svg`: what was live when allocated bytes peaked, by stack, the outermost frame on top.
//!
//! Owns how a box looks and what fits into it. Which boxes there are is in the data.

use super::palette::{BANDS, Ink, LIBRARY, MUTED, OTHER, TEXT, takes_light_text};
use super::picture::{SIDE, WIDTH};
use super::sheet::{Area, Head, Hold, Sheet, fitted};
use crate::report::escape::{keep_start, short_name, terminal};
use crate::report::pictures::{FlameBox, FlameGraph, FlameKind};
use crate::report::types::{DeviceReport, TraceReport};
use crate::units::{Bytes, Count, percent};

const HEIGHT: f64 = 19.0;
const PITCH: f64 = 20.0;
const TOP: f64 = 72.0;
/// Room for a character of a text in a box.
const CHARACTER: f64 = 7.9;
/// Fewer characters say nothing.
const FEWEST_CHARACTERS: usize = 4;
/// With less room, the function says more than a part of the file.
const FEWEST_FOR_A_FILE: usize = 30;
/// Levels at most, whatever the data says.
const MOST_LEVELS: u32 = 64;

/// The picture of `device`.
pub(super) fn render(trace: &TraceReport, device: &DeviceReport) -> String {
    let graph = &device.pictures.flame;
    let title = super::title("Live at the peak, by stack", trace, device);
    let subtitle = subtitle(graph);
    let description = format!(
        "{subtitle}. A box is a frame, as wide as the bytes allocated below it; the outermost frame is on top. Lines of \
         your own code have the colours of their lines."
    );
    let head = Head { title: &title, subtitle: &subtitle, description: &description };
    fitted(|characters| draw(graph, &head, characters))
}

fn subtitle(graph: &FlameGraph) -> String {
    let moment = match graph.event {
        Some(event) => format!("after event {}", Count(event)),
        None => "before the first event".to_owned(),
    };
    let allocations = graph.boxes.iter().filter(|one| one.level == 0);
    let allocations = allocations.fold(0u64, |sum, one| sum.saturating_add(one.allocations));
    format!("{} in {} allocations, {moment}", Bytes(graph.total_bytes), Count(allocations))
}

fn draw(graph: &FlameGraph, head: &Head<'_>, characters: usize) -> String {
    let mut sheet = Sheet::default();
    let across = f64::from(WIDTH - 2 * SIDE) / graph.total_bytes.max(1) as f64;
    let mut levels = 0;
    for one in graph.boxes.iter().filter(|one| one.level < MOST_LEVELS) {
        levels = levels.max(one.level + 1);
        draw_box(&mut sheet, one, graph, across, characters);
    }
    let mut y = TOP + f64::from(levels) * PITCH + 22.0;
    let notes = notes(graph);
    key(&mut sheet, y);
    for note in notes {
        y += 19.0;
        sheet.text(MUTED.class, (f64::from(SIDE), y), Hold::Start, &note);
    }
    sheet.finish(head, y + 16.0)
}

/// What the shades mean, in one line.
fn key(sheet: &mut Sheet, y: f64) {
    let mut x = f64::from(SIDE);
    let entries: [(&[Ink], &str); 3] = [
        (&BANDS[..4], "your lines that held most, as in the other pictures"),
        (&[OTHER], "your other lines"),
        (&[LIBRARY], "libraries"),
    ];
    for (inks, name) in entries {
        for ink in inks {
            sheet.fill(*ink, Area { x, y: y - 10.0, width: 12.0, height: 11.0 }, "");
            x += 13.0;
        }
        sheet.text(TEXT.class, (x + 6.0, y), Hold::Start, name);
        x += 6.0 + name.len() as f64 * 7.4 + 22.0;
    }
}

fn notes(graph: &FlameGraph) -> Vec<String> {
    if graph.boxes.is_empty() {
        return vec!["Nothing was allocated.".to_owned()];
    }
    let mut notes = vec![format!(
        "Outermost frame on top, largest on the left. Boxes under {} are put together.",
        Bytes(graph.least_bytes)
    )];
    if graph.is_folded {
        notes.push("Frames of libraries between your lines are folded into one box.".to_owned());
    }
    notes
}

fn draw_box(sheet: &mut Sheet, one: &FlameBox, graph: &FlameGraph, across: f64, characters: usize) {
    let (x, width) = (one.begin_bytes as f64 * across, one.bytes as f64 * across);
    let ink = ink(one.kind);
    // A hair of the panel between two boxes; a box of less than a pixel is all colour.
    let gap = if width > 2.0 { 1.0 } else { 0.0 };
    let area = Area {
        x: f64::from(SIDE) + x,
        y: TOP + f64::from(one.level) * PITCH,
        width: width - gap,
        height: HEIGHT,
    };
    let label = terminal(&one.label);
    let name = match one.kind {
        FlameKind::Folded => keep_start(&label, characters),
        FlameKind::Line(_) | FlameKind::Library => short_name(&label, characters),
    };
    let plural = if one.allocations == 1 { "allocation" } else { "allocations" };
    let title = format!(
        "{name}: {} ({} B), {}, {} {plural}",
        Bytes(one.bytes),
        Count(one.bytes),
        percent(one.bytes, graph.total_bytes),
        Count(one.allocations)
    );
    sheet.fill(ink, area, &title);
    let room = ((width - 10.0) / CHARACTER).max(0.0) as usize;
    if room < FEWEST_CHARACTERS {
        return;
    }
    let class = match one.kind {
        FlameKind::Line(_) if ink == OTHER => TEXT.class,
        FlameKind::Line(_) if takes_light_text(ink) => "ondark",
        FlameKind::Line(_) => "onlight",
        FlameKind::Library => TEXT.class,
        FlameKind::Folded => MUTED.class,
    };
    sheet.text(class, (area.x + 5.0, area.y + 14.0), Hold::Start, &inner_text(one, &label, room));
}

/// What of a label fits into a box: the file without its folders, else the line and function, else the function.
fn inner_text(one: &FlameBox, label: &str, room: usize) -> String {
    if one.kind == FlameKind::Folded {
        return keep_start(label, room).into_owned();
    }
    let file = label.rsplit(['/', '\\']).next().filter(|file| !file.is_empty()).unwrap_or(label);
    let line = file.find(':').map_or("", |at| &file[at..]);
    let function = file.split_once(' ').map_or("", |(_, function)| function);
    let fits = |text: &&str| !text.is_empty() && text.chars().count() <= room;
    if fits(&file) || room >= FEWEST_FOR_A_FILE || function.is_empty() {
        return short_name(file, room).into_owned();
    }
    let fitting = [line, function].into_iter().find(fits);
    fitting.map_or_else(|| keep_start(function, room).into_owned(), str::to_owned)
}

fn ink(kind: FlameKind) -> Ink {
    match kind {
        FlameKind::Line(rank) => rank.and_then(|rank| BANDS.get(rank as usize).copied()).unwrap_or(OTHER),
        FlameKind::Library | FlameKind::Folded => LIBRARY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_telling_part_of_a_name_that_fits_is_shown() {
        let shown = |label: &str, room| inner_text(&FlameBox::default(), label, room);
        let label = "/home/me/net/block.py:41 forward";
        assert_eq!(shown(label, 40), "block.py:41 forward");
        assert_eq!(shown(label, 12), ":41 forward");
        assert_eq!(shown(label, 8), "forward");
        assert_eq!(shown(label, 5), "forw…");
        assert_eq!(shown("at::empty_like(at::Tensor)", 9), "at…ensor)");
        assert_eq!(shown("", 9), "");
        let folded = FlameBox { kind: FlameKind::Folded, ..FlameBox::default() };
        assert_eq!(inner_text(&folded, "… 3 library frames", 9), "… 3 libr…");
    }
}
