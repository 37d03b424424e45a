//! `diff.svg`: allocated and reserved bytes of both sides of a comparison, on one axis.
//!
//! Owns the common samples, the curves and the marks of both peaks; `draw` does the rest.

use super::draw;
use super::outline::Grid;
use super::palette::{ALLOCATED, BANDS, Ink, OTHER, STEP, hex};
use super::picture::{COLUMNS, Curve, LEFT, Note, Picture, TOP};
use crate::report::diff::{DeviceDiff, headline, picture_note};
use crate::report::types::Timeline;
use crate::units::Bytes;

/// Samples at most: more than there are pixel columns, several times over.
const MOST_SAMPLES: usize = 24_000;
/// Muted: reserved, allocated.
const BEFORE: [Ink; 2] = [STEP, OTHER];
/// Accent: reserved, allocated.
const AFTER: [Ink; 2] = [ALLOCATED, BANDS[9]];

/// The curves of both sides, as an SVG document; `None` where a side has none or their axes differ.
#[must_use]
pub fn diff_svg(device: &DeviceDiff) -> Option<String> {
    if picture_note(device).is_some() {
        return None;
    }
    let (before, after) = (&device.timelines.before, &device.timelines.after);
    let timeline = Timeline {
        x_is_time: after.x_is_time,
        x: samples(before, after),
        x_end: before.x_end.max(after.x_end),
        events_per_sample: 1,
        ..Timeline::default()
    };
    let picture = picture(device, &timeline);
    let grid = picture.grid();
    let svg = cut_short(&draw::render(&picture), device, &grid);
    let marks = [("before", before, BEFORE), ("after", after, AFTER)]
        .map(|(name, side, inks)| mark(name, side, inks, &grid));
    let body = svg.trim_end().strip_suffix("</svg>")?;
    Some(format!("{body}{}</svg>\n", marks.concat()))
}

fn picture<'a>(device: &DeviceDiff, timeline: &'a Timeline) -> Picture<'a> {
    let (before, after) = (&device.timelines.before, &device.timelines.after);
    let curve = |side: &Timeline, name: &str, values: &[u64], ink: Ink, width: u32| Curve {
        name: name.to_owned(),
        note: Note::bytes(values.iter().copied().max().unwrap_or(0), "at most"),
        values: sampled(side, values, &timeline.x),
        ink,
        width,
    };
    Picture {
        title: format!("Before and after: device {}", device.device),
        subtitle: headline(device),
        description: format!(
            "Reserved (thick) and allocated (thin) bytes of two recordings over the same axis. {}.",
            headline(device)
        ),
        timeline,
        layers: Vec::new(),
        curves: vec![
            curve(before, "before, allocated", &before.allocated, BEFORE[1], 2),
            curve(before, "before, reserved", &before.reserved, BEFORE[0], 3),
            curve(after, "after, allocated", &after.allocated, AFTER[1], 2),
            curve(after, "after, reserved", &after.reserved, AFTER[0], 3),
        ],
        device_bytes: None,
        across: None,
        counts: "event",
        steps: 0,
    }
}

/// The samples of both sides, and the moments at which a side ends. Too many are thinned out, but never the
/// highest of a side.
fn samples(before: &Timeline, after: &Timeline) -> Vec<u64> {
    let mut x: Vec<u64> = before.x.iter().chain(&after.x).copied().collect();
    x.extend([0, before.x_end, after.x_end]);
    x.sort_unstable();
    x.dedup();
    let every = x.len().div_ceil(MOST_SAMPLES).max(1);
    let mut kept: Vec<u64> = x.iter().copied().step_by(every).chain(x.last().copied()).collect();
    for side in [before, after] {
        kept.extend(highest(&side.reserved).and_then(|at| side.x.get(at)));
        kept.extend(highest(&side.allocated).and_then(|at| side.x.get(at)));
    }
    let end = before.x_end.max(after.x_end);
    kept.retain(|&x| x <= end);
    kept.sort_unstable();
    kept.dedup();
    kept
}

/// The first place of the highest value.
fn highest(values: &[u64]) -> Option<usize> {
    let most = values.iter().max()?;
    values.iter().position(|value| value == most)
}

/// The values of a side at `x`: what held since the last sample, nothing before the first. Of several samples at
/// one place the highest is taken, so that no peak is lost.
fn sampled(side: &Timeline, values: &[u64], x: &[u64]) -> Vec<u64> {
    let mut sampled = Vec::with_capacity(x.len());
    let mut next = 0;
    let mut last = 0;
    for &x in x {
        let mut most = None;
        while let (Some(&at), Some(&value)) = (side.x.get(next), values.get(next))
            && at <= x
        {
            most = most.max(Some(value));
            last = value;
            next += 1;
        }
        sampled.push(most.unwrap_or(last));
    }
    sampled
}

/// The picture with the curves of the shorter side ending where that side ends: plotters draws all of them to the
/// right edge, the last value held.
fn cut_short(svg: &str, device: &DeviceDiff, grid: &Grid) -> String {
    let (before, after) = (&device.timelines.before, &device.timelines.after);
    let (inks, end) = if before.x_end < after.x_end { (BEFORE, before.x_end) } else { (AFTER, after.x_end) };
    let last = LEFT + (end as f64 / grid.x_end * f64::from(COLUMNS)).round() as i32;
    let colours = inks.map(|ink| format!("stroke=\"{}\"", hex(ink.colour)));
    let line = |line: &str| {
        let points = line.split_once(" points=\"").and_then(|(head, rest)| {
            let (points, tail) = rest.split_once('"')?;
            Some((head, points, tail))
        });
        let is_curve = line.starts_with("<polyline") && colours.iter().any(|colour| line.contains(colour));
        match points.filter(|(_, points, _)| is_curve && begins_before(points, LEFT + COLUMNS)) {
            Some((head, points, tail)) => format!("{head} points=\"{}\"{tail}\n", until(points, last)),
            None => format!("{line}\n"),
        }
    };
    svg.lines().map(line).collect()
}

/// Whether a line begins in the plot; those of the legend do not.
fn begins_before(points: &str, right: i32) -> bool {
    let first = points.split_once(',').and_then(|(column, _)| column.parse::<i32>().ok());
    first.is_some_and(|column| column < right)
}

/// `points` up to column `last`, where the last value ends.
fn until(points: &str, last: i32) -> String {
    let mut kept: Vec<String> = Vec::new();
    let mut row = None;
    for (column, level) in points.split_whitespace().filter_map(|point| point.split_once(',')) {
        if column.parse::<i32>().is_ok_and(|column| column > last) {
            break;
        }
        kept.push(format!("{column},{level}"));
        row = Some(level);
    }
    kept.extend(row.map(|row| format!("{last},{row}")));
    kept.join(" ")
}

/// A ring at the reserved peak and a dot at the allocated one, each with its tooltip; the legend has the sizes.
fn mark(name: &str, side: &Timeline, inks: [Ink; 2], grid: &Grid) -> String {
    let mut marks = String::new();
    let [reserved, allocated] = inks.map(|ink| hex(ink.colour));
    let counters = [
        ("reserved", &side.reserved, &reserved, "none"),
        ("allocated", &side.allocated, &allocated, allocated.as_str()),
    ];
    for (counter, values, colour, fill) in counters {
        let Some((&x, &bytes)) = highest(values).and_then(|at| side.x.get(at).zip(values.get(at))) else {
            continue;
        };
        let column = f64::from(LEFT) + (x as f64 / grid.x_end).min(1.0) * f64::from(COLUMNS);
        let row = f64::from(TOP) + grid.rows - bytes as f64 / grid.y_end * grid.rows;
        marks.push_str(&format!(
            "<circle cx=\"{column:.1}\" cy=\"{row:.1}\" r=\"5\" fill=\"{fill}\" stroke=\"{colour}\" \
             stroke-width=\"2\"><title>{counter} peak {name}: {}</title></circle>\n",
            Bytes(bytes)
        ));
    }
    marks
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::report::diff::Sides;

    fn timeline(x: &[u64], reserved: &[u64]) -> Timeline {
        Timeline {
            x: x.to_vec(),
            reserved: reserved.to_vec(),
            allocated: reserved.iter().map(|bytes| bytes / 2).collect(),
            x_end: x.last().copied().unwrap_or(0),
            ..Timeline::default()
        }
    }

    fn device(before: Timeline, after: Timeline) -> DeviceDiff {
        DeviceDiff { timelines: Sides { before, after }, ..DeviceDiff::default() }
    }

    #[test]
    fn both_sides_stand_on_one_axis_and_a_shorter_one_ends() {
        let (before, after) = (timeline(&[0, 4], &[10, 30]), timeline(&[0, 2, 9], &[5, 50, 20]));
        let x = samples(&before, &after);
        assert_eq!(x, [0, 2, 4, 9]);
        assert_eq!(sampled(&before, &before.reserved, &x), [10, 10, 30, 30]);
        assert_eq!(sampled(&after, &after.reserved, &x), [5, 50, 50, 20]);
        let svg = diff_svg(&device(before, after)).unwrap();
        let ends = |class: &str| {
            let curves = svg.lines().filter(|line| line.starts_with(&format!("<polyline class=\"{class}\"")));
            let last = |line: &str| {
                line.split('"')
                    .find(|part| part.contains(','))?
                    .rsplit(' ')
                    .find_map(|point| point.split_once(',')?.0.parse::<i32>().ok())
            };
            curves.filter_map(last).filter(|&x| x < LEFT + COLUMNS + 10).collect::<Vec<_>>()
        };
        for (before, after) in BEFORE.into_iter().zip(AFTER) {
            assert_eq!(ends(before.class)[0], LEFT + (COLUMNS * 4 + 4) / 9);
            assert_eq!(ends(after.class)[0], LEFT + COLUMNS);
        }
        for name in ["before, reserved", "before, allocated", "after, reserved", "after, allocated"] {
            assert_eq!(svg.matches(&format!("<title>{name}: ")).count(), 2, "curve and legend: {name}");
        }
        for peak in ["reserved peak before: 30 B", "allocated peak after: 25 B", "after, reserved"] {
            assert!(svg.contains(peak), "{peak}: {svg}");
        }
        assert!(svg.ends_with("</svg>\n") && svg.matches("</svg>").count() == 1);
    }

    #[test]
    fn the_highest_of_many_samples_is_kept() {
        let x: Vec<u64> = (0..100_000).collect();
        let mut bytes = vec![7; x.len()];
        bytes[77_777] = 1_000;
        let side = timeline(&x, &bytes);
        let kept = samples(&side, &side);
        assert!(kept.len() <= MOST_SAMPLES + 4);
        assert_eq!(sampled(&side, &side.reserved, &kept).into_iter().max(), Some(1_000));
        assert!(diff_svg(&device(side.clone(), side)).unwrap().len() < 500_000);
    }

    #[test]
    fn without_a_curve_or_a_common_axis_there_is_no_picture() {
        let side = timeline(&[0, 4], &[10, 30]);
        assert!(diff_svg(&device(side.clone(), Timeline::default())).is_none());
        let timed = Timeline { x_is_time: true, ..side.clone() };
        assert!(diff_svg(&device(side, timed)).is_none());
    }

    #[test]
    fn impossible_curves_are_drawn_all_the_same() {
        let wild = Timeline { reserved: vec![u64::MAX; 9], ..timeline(&[0, u64::MAX], &[0, u64::MAX]) };
        assert!(diff_svg(&device(wild.clone(), wild)).is_some());
    }
}
