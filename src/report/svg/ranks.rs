//! `ranks.svg`: reserved bytes of all ranks on one axis; who failed or stands apart in colour, the others grey.
//!
//! Owns who is drawn how. Up to 64 ranks are drawn one by one; of more, the others are their lowest, middle and
//! highest. `draw` makes the panel; curves that end before the axis does are put into it here.

use std::fmt::Write as _;

use super::axis::Ticks;
use super::draw;
use super::outline::{Grid, outline};
use super::palette::{BANDS, Ink, OOM, OTHER, RESERVED, STEP, UNKNOWN, hex};
use super::picture::{Across, COLUMNS, Curve, LEFT, Note, Picture, TOP};
use super::ranks_axis::{Axis, Placed};
use crate::report::escape::{terminal, xml};
use crate::report::ranks::{RankRow, RanksReport, rank_name};
use crate::report::types::Timeline;
use crate::units::{Bytes, Count};

/// Ranks that are drawn one by one.
const MOST_CURVES: usize = 64;
/// Ranks in colour.
const MOST_COLOURED: usize = 8;
/// Samples of the curves that stand for many ranks.
const SAMPLES: usize = 590;

/// The curves of all ranks as an SVG document; `None` where no rank has one.
#[must_use]
pub fn ranks_svg(report: &RanksReport) -> Option<String> {
    let axis = Axis::of(&report.rows);
    if axis.ranks.is_empty() {
        return None;
    }
    let timeline = Timeline {
        x_is_time: axis.is_time,
        x: (0..SAMPLES as u64).map(|n| at(n, axis.end)).collect(),
        x_end: axis.end,
        events_per_sample: 1,
        ..Timeline::default()
    };
    let (coloured, others) = parted(report, &axis);
    let summed = axis.ranks.len() > MOST_CURVES;
    let curves = curves(&coloured, &others, summed, axis.end);
    let of_job = report.job.as_ref().map(|job| format!(" of {}", terminal(job))).unwrap_or_default();
    let picture = Picture {
        title: format!("Reserved memory of {} ranks{of_job}", Count(axis.ranks.len() as u64)),
        subtitle: subtitle(report, &axis),
        description: format!(
            "Reserved bytes of each rank over {}. {}. Each pixel column shows the lowest and the highest value.",
            axis.name, report.failure.sentence
        ),
        timeline: &timeline,
        layers: Vec::new(),
        curves,
        device_bytes: None,
        steps: 0,
        across: Some(across(&axis)),
        counts: "event",
    };
    let grid = picture.grid();
    let svg = draw::render(&picture);
    Some(with_ranks(&svg, &coloured, if summed { &[] } else { &others }, &grid, axis.is_time))
}

fn at(sample: u64, end: u64) -> u64 {
    (u128::from(end) * u128::from(sample) / SAMPLES as u128) as u64
}

/// The horizontal axis under its own name.
fn across(axis: &Axis<'_>) -> Across {
    let end = axis.end.max(1) as f64;
    let ticks = if axis.is_time { Ticks::time(end) } else { Ticks::events(end) };
    let labels = ticks.at.iter().map(|&at| (at as u64, ticks.text(at))).collect();
    Across { name: axis.name.to_owned(), labels }
}

fn subtitle(report: &RanksReport, axis: &Axis<'_>) -> String {
    let mut text = report.failure.sentence.clone();
    if axis.left_out > 0 {
        let _ = write!(text, "; {} ranks are measured otherwise and left out", Count(axis.left_out as u64));
    }
    text
}

/// Who failed, then who stands apart, as far as there are colours; and the others.
fn parted<'a, 'b>(report: &RanksReport, axis: &'b Axis<'a>) -> (Vec<&'b Placed<'a>>, Vec<&'b Placed<'a>>) {
    let failed = report.failure.ranks.iter().map(|rank| rank.path.as_str());
    let apart = report.outliers.iter().map(|rank| rank.path.as_str());
    let mut paths: Vec<&str> = Vec::new();
    for path in failed.chain(apart) {
        if paths.len() < MOST_COLOURED && !paths.contains(&path) {
            paths.push(path);
        }
    }
    let find = |path: &&str| axis.ranks.iter().find(|rank| rank.row.path == **path);
    let coloured: Vec<&Placed<'a>> = paths.iter().filter_map(find).collect();
    let others = axis.ranks.iter().filter(|rank| !paths.contains(&rank.row.path.as_str())).collect();
    (coloured, others)
}

fn curves(coloured: &[&Placed<'_>], others: &[&Placed<'_>], summed: bool, end: u64) -> Vec<Curve> {
    let columns: Vec<Vec<Option<u64>>> = others.iter().map(|rank| rank.columns(SAMPLES, end)).collect();
    let of = |choose: fn(&[u64]) -> u64| -> Vec<u64> {
        (0..SAMPLES)
            .map(|column| {
                let mut there: Vec<u64> = columns.iter().filter_map(|values| values[column]).collect();
                there.sort_unstable();
                if there.is_empty() { 0 } else { choose(&there) }
            })
            .collect()
    };
    let curve = |name: String, values: Vec<u64>, ink: Ink, width: u32| Curve {
        name,
        note: Note::bytes(values.iter().copied().max().unwrap_or(0), "at most"),
        values,
        ink,
        width,
    };
    let count = Count(others.len() as u64);
    let mut curves = Vec::new();
    if summed {
        curves.push(curve(format!("{count} other ranks, lowest"), of(|all| all[0]), UNKNOWN, 2));
        curves.push(curve("their highest".to_owned(), of(|all| all[all.len() - 1]), STEP, 2));
        curves.push(curve("their median".to_owned(), of(|all| all[all.len() / 2]), RESERVED, 2));
    } else if let Some(first) = others.first() {
        let named = if others.len() == 1 { name(first.row) } else { format!("{count} other ranks") };
        curves.push(curve(named, of(|all| all[all.len() - 1]), OTHER, 1));
    }
    // The last is drawn on top and comes first in the legend.
    for (rank, ink) in coloured.iter().zip(BANDS).collect::<Vec<_>>().into_iter().rev() {
        let values = rank.columns(SAMPLES, end).into_iter().map(Option::unwrap_or_default).collect();
        curves.push(curve(name(rank.row), values, ink, 2));
    }
    curves
}

fn name(row: &RankRow) -> String {
    rank_name(row.rank, &row.path)
}

/// `svg` with the curves of single ranks in place of the stand-ins that gave them their room and their names.
fn with_ranks(
    svg: &str,
    coloured: &[&Placed<'_>],
    others: &[&Placed<'_>],
    grid: &Grid,
    is_time: bool,
) -> String {
    let mut out = String::with_capacity(svg.len() * 2);
    for line in svg.lines() {
        let class = plotted_class(line);
        let place = BANDS.iter().position(|ink| Some(ink.class) == class);
        if let Some((rank, ink)) = place.and_then(|place| Some((coloured.get(place)?, BANDS[place]))) {
            out.push_str(&polyline(rank, ink, 2, grid));
            out.push_str(&mark(rank, grid, is_time));
        } else if class == Some(OTHER.class) {
            out.extend(others.iter().map(|rank| polyline(rank, OTHER, 1, grid)));
        } else {
            out.extend([line, "\n"]);
        }
    }
    out
}

/// The class of a curve within the plot; those of the legend do not count.
fn plotted_class(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("<polyline class=\"")?;
    let class = rest.split('"').next()?;
    let points = line.split_once(" points=\"")?.1;
    let column = points.split_once(',')?.0.parse::<i32>().ok()?;
    (column < LEFT + COLUMNS).then_some(class)
}

/// A rank's reserved bytes up to where its recording ends; of one in colour its allocated ones, too, faintly.
fn polyline(rank: &Placed<'_>, ink: Ink, width: u32, grid: &Grid) -> String {
    let curve = &rank.row.curve;
    let highest = Bytes(curve.reserved.iter().copied().max().unwrap_or(0));
    let title = xml(&terminal(&format!("{}: {highest} reserved at most", name(rank.row)))).into_owned();
    let mut text = String::new();
    if width > 1 {
        let points = points(rank, &curve.allocated, grid);
        let _ = writeln!(
            text,
            "<polyline class=\"{}\" fill=\"none\" opacity=\"0.5\" stroke=\"{}\" points=\"{points}\"><title>{title}, \
             allocated</title></polyline>",
            ink.class,
            hex(ink.colour)
        );
    }
    let points = points(rank, &curve.reserved, grid);
    let _ = writeln!(
        text,
        "<polyline class=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\" points=\"{points}\"><title>{title}\
         </title></polyline>",
        ink.class,
        hex(ink.colour)
    );
    text
}

fn points(rank: &Placed<'_>, values: &[u64], grid: &Grid) -> String {
    // The grid up to the rank's own end: the same scale, and the outline stops there.
    let end = (rank.end() as f64).max(1.0);
    let own = Grid { x_end: end, columns: (end / grid.x_end * grid.columns).min(grid.columns), ..*grid };
    let points = outline(&rank.x(), values, &own);
    let place = |(column, row): (i64, i64)| {
        format!("{},{}", i64::from(LEFT) + column, i64::from(TOP) + grid.rows as i64 - row)
    };
    points.into_iter().map(place).collect::<Vec<_>>().join(" ")
}

/// Where the rank first ran out of memory.
fn mark(rank: &Placed<'_>, grid: &Grid, is_time: bool) -> String {
    let Some(at) = rank.failed_at(is_time) else { return String::new() };
    let Some(oom) = &rank.row.oom else { return String::new() };
    let curve = &rank.row.curve;
    let sample = rank.x().partition_point(|&x| x <= at).saturating_sub(1);
    let bytes = curve.reserved.get(sample).copied().unwrap_or(0);
    let column = f64::from(LEFT) + (at as f64 / grid.x_end).min(1.0) * grid.columns;
    let row = f64::from(TOP) + grid.rows - bytes as f64 / grid.y_end * grid.rows;
    let title = format!("{}: out of memory, {} asked", name(rank.row), Bytes(oom.requested_bytes));
    format!(
        "<circle cx=\"{column:.1}\" cy=\"{row:.1}\" r=\"5\" fill=\"{}\" stroke=\"none\"><title>{}</title></circle>\n",
        hex(OOM.colour),
        xml(&terminal(&title))
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::report::escape;
    use crate::report::ranks::fixture;

    fn count(svg: &str, class: &str) -> usize {
        svg.lines().filter(|line| plotted_class(line) == Some(class)).count()
    }

    #[test]
    fn every_rank_of_a_small_job_has_its_curve_and_odd_ones_their_colour() {
        let svg = ranks_svg(&fixture::job(64)).unwrap();
        assert_eq!((count(&svg, "other"), count(&svg, "b0"), count(&svg, "b1")), (62, 2, 2), "{svg}");
        for text in
            ["rank 5: out of memory, 64.0 MiB asked", "rank 3: 240.0 MiB reserved at most", "62 other ranks"]
        {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(svg.len() < 200_000 && svg.ends_with("</svg>\n"), "{}", svg.len());
        assert_eq!(svg, ranks_svg(&fixture::job(64)).unwrap());
    }

    #[test]
    fn very_many_ranks_are_three_curves_and_the_odd_ones() {
        let svg = ranks_svg(&fixture::job(1_024)).unwrap();
        assert_eq!((count(&svg, "other"), count(&svg, "b0"), count(&svg, "b2")), (0, 2, 0));
        for class in ["unknown", "step", "reserved"] {
            assert_eq!(count(&svg, class), 1, "{class}: {svg}");
        }
        assert!(svg.len() < 200_000, "{}", svg.len());
    }

    #[test]
    fn a_recording_that_ends_early_has_a_curve_that_does() {
        let mut report = fixture::job(8);
        report.rows[5].curve.end = 1_000_000;
        report.rows[5].curve.x = vec![0, 1_000_000];
        let svg = ranks_svg(&report).unwrap();
        let line = svg.lines().rfind(|line| plotted_class(line) == Some("b0")).unwrap();
        let points = line.split_once(" points=\"").unwrap().1.split_once('"').unwrap().0;
        let last: i32 = points.rsplit(' ').next().unwrap().split_once(',').unwrap().0.parse().unwrap();
        assert!((LEFT + COLUMNS / 2 - 3..=LEFT + COLUMNS / 2 + 3).contains(&last), "{last}");
    }

    #[test]
    fn hostile_ranks_are_drawn_all_the_same() {
        let svg = ranks_svg(&fixture::hostile()).unwrap();
        assert!(!svg.contains("<b>") && !svg.contains("<script"), "{svg}");
        assert!(!svg.chars().any(|c| c != '\n' && escape::is_invisible(c)));
        let mut none = fixture::job(9);
        none.rows.iter_mut().for_each(|row| row.curve.x.clear());
        assert!(ranks_svg(&none).is_none());
    }
}
