//! The pictures of a report, drawn with plotters and finished by a small writer of our own.
//!
//! Owns `timeline.svg`, `fragmentation.svg`, `segments.svg`, `flamegraph.svg` and `steps.svg`. A picture needs no script
//! and no network, is the same bytes for the same report, and stays under 500 KB however many events there were: see
//! `outline` for charts, `segment_runs` and `sheet::fitted` for the others. A line has the same colour in all of them.

mod axis;
mod decorate;
mod diff;
mod draw;
mod driver;
mod flamegraph;
mod fragmentation;
mod legend;
mod marks;
mod outline;
mod palette;
mod picture;
mod ranks;
mod ranks_axis;
mod scale;
mod segment_rows;
mod segment_runs;
mod segment_sums;
mod segments;
mod sheet;
mod steps;
mod timeline;
mod whatif;

pub use diff::diff_svg;
pub use ranks::ranks_svg;

use super::driver::{DriverDeviceRow, DriverReport};
use super::types::{DeviceReport, TraceReport};

/// The kinds of pictures of a report: the stems of their names, see [`super::picture_name`].
pub const PICTURE_KINDS: [&str; 5] = ["timeline", "segments", "flamegraph", "steps", "fragmentation"];

/// The stem of the name of a driver device's picture, which the devices of the allocator have not.
pub const DRIVER_PICTURE: &str = "driver-timeline";

/// Whether there is anything to draw of `device`.
pub(super) fn has_driver_timeline(device: &DriverDeviceRow) -> bool {
    !device.timeline.x.is_empty()
}

/// Who held the memory of `device` over time, by calls of the driver, as an SVG document; `None` without samples.
#[must_use]
pub fn driver_timeline_svg(
    trace: &TraceReport,
    driver: &DriverReport,
    device: &DriverDeviceRow,
) -> Option<String> {
    has_driver_timeline(device).then(|| draw::render(&driver::picture(trace, driver, device)))
}

/// The picture of `kind` as an SVG document; `None` where there is nothing to show, as without steps, and for a kind
/// that is not one of [`PICTURE_KINDS`].
#[must_use]
pub fn picture_svg(kind: &str, trace: &TraceReport, device: &DeviceReport) -> Option<String> {
    match kind {
        "timeline" => Some(timeline_svg(trace, device)),
        "segments" => Some(segments_svg(trace, device)),
        "flamegraph" => Some(flamegraph_svg(trace, device)),
        "steps" => steps_svg(trace, device),
        "fragmentation" => Some(fragmentation_svg(trace, device)),
        _ => None,
    }
}

/// The segments of `device` to scale, at the last OOM or when reserved bytes peak, as an SVG document.
#[must_use]
pub fn segments_svg(trace: &TraceReport, device: &DeviceReport) -> String {
    segments::render(trace, device)
}

/// What was live on `device` when allocated bytes peaked, by stack, as an SVG document.
#[must_use]
pub fn flamegraph_svg(trace: &TraceReport, device: &DeviceReport) -> String {
    flamegraph::render(trace, device)
}

/// What each step of `device` held and reached, as an SVG document; `None` when there are no steps.
#[must_use]
pub fn steps_svg(trace: &TraceReport, device: &DeviceReport) -> Option<String> {
    let curve = &device.pictures.steps;
    if curve.columns.is_empty() {
        return None;
    }
    let timeline = steps::timeline(curve);
    let picture = steps::picture(trace, device, &timeline);
    Some(steps::with_tooltips(&draw::render(&picture), &picture, curve))
}

/// Which lines held the memory of `device` over time, as an SVG document.
#[must_use]
pub fn timeline_svg(trace: &TraceReport, device: &DeviceReport) -> String {
    draw::render(&timeline::picture(trace, device))
}

/// Where the reserved memory of `device` is over time, as an SVG document.
#[must_use]
pub fn fragmentation_svg(trace: &TraceReport, device: &DeviceReport) -> String {
    draw::render(&fragmentation::picture(trace, device))
}

/// Reserved bytes over time under each setting of a what-if replay, as an SVG document.
#[must_use]
pub fn whatif_svg(report: &super::whatif::WhatIfReport) -> String {
    draw::render(&whatif::picture(report, &whatif::timeline(report)))
}

fn title(what: &str, trace: &TraceReport, device: &DeviceReport) -> String {
    title_of(what, &trace.path, device.device)
}

fn title_of(what: &str, path: &str, device: u32) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    format!("{what}: {}, device {device}", super::escape::short_name(name, 48))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Report, Timeline, fixtures, picture_fixture, timeline_fixture};

    const ALL: [&str; 5] = PICTURE_KINDS;

    fn render(kind: &str, report: &Report) -> String {
        picture_svg(kind, &report.traces[0], &report.traces[0].devices[0]).unwrap()
    }

    /// The picture with every number list cut short: what is left can be reviewed.
    pub(super) fn outlined(svg: &str) -> String {
        let mut text = String::new();
        for line in svg.lines() {
            match line.split_once("points=\"") {
                Some((before, rest)) => {
                    let (points, after) = rest.split_once('"').unwrap();
                    let count = points.split(' ').count();
                    let first: Vec<&str> = points.split(' ').take(3).collect();
                    text.push_str(&format!("{before}points=\"{} ... {count}\"{after}\n", first.join(" ")));
                }
                None => text.push_str(&format!("{line}\n")),
            }
        }
        text
    }

    #[test]
    fn the_pictures_are_as_agreed() {
        insta::assert_snapshot!("timeline_oom", outlined(&render("timeline", &fixtures::oom())));
        insta::assert_snapshot!("timeline_late", outlined(&render("timeline", &fixtures::late())));
        for kind in ["segments", "flamegraph", "steps"] {
            insta::assert_snapshot!(format!("{kind}_oom"), outlined(&render(kind, &fixtures::oom())));
        }
        insta::assert_snapshot!("fragmentation_oom", outlined(&render("fragmentation", &fixtures::oom())));
    }

    #[test]
    fn the_same_report_gives_the_same_picture() {
        for kind in ALL {
            assert_eq!(render(kind, &fixtures::normal()), render(kind, &fixtures::normal()));
        }
    }

    #[test]
    fn the_densest_timeline_stays_under_500_kb() {
        for bands in [1, 12, 40] {
            let mut report = fixtures::normal();
            report.traces[0].devices[0].timeline = timeline_fixture::densest(bands);
            for kind in ["timeline", "fragmentation"] {
                let svg = render(kind, &report);
                assert!(svg.len() < 500_000, "{} bytes with {bands} bands", svg.len());
            }
        }
    }

    #[test]
    fn the_densest_of_the_other_pictures_stay_under_500_kb() {
        for name in ["n", &"folder/".repeat(60), &"\"<&\u{202e}".repeat(900)] {
            let mut report = fixtures::normal();
            report.traces[0].devices[0].pictures = picture_fixture::densest(name);
            for kind in ["segments", "flamegraph", "steps"] {
                let svg = render(kind, &report);
                assert!(svg.len() < 500_000, "{kind}: {} bytes", svg.len());
            }
        }
    }

    #[test]
    fn a_line_has_the_same_colour_in_every_picture() {
        let report = fixtures::oom();
        let pictures = &report.traces[0].devices[0].pictures;
        let name = pictures.line_names[1].clone();
        for kind in ["segments", "flamegraph"] {
            let svg = render(kind, &report);
            let boxes: Vec<&str> =
                svg.lines().filter(|line| line.contains(&format!("<title>{name}: "))).collect();
            assert!(
                !boxes.is_empty() && boxes.iter().all(|line| line.contains("class=\"b1\"")),
                "{kind}: {boxes:?}"
            );
        }
        let steps = render("steps", &report);
        assert!(
            steps.lines().any(|line| line.contains(&format!("<title>{name}: ")) && line.contains("#88CCEE"))
        );
    }

    #[test]
    fn without_steps_there_is_no_picture_of_them_and_nothing_is_a_picture_too() {
        let mut report = fixtures::late();
        let (trace, device) = (&report.traces[0], &report.traces[0].devices[0]);
        assert!(steps_svg(trace, device).is_none() && picture_svg("other", trace, device).is_none());
        report.traces[0].devices[0].pictures = crate::report::Pictures::default();
        assert!(render("segments", &report).contains("Nothing is reserved."));
        assert!(render("flamegraph", &report).contains("Nothing was allocated."));
    }

    #[test]
    fn no_text_is_smaller_than_ten_pixels_at_a_width_of_800() {
        for kind in ALL {
            for report in [fixtures::oom(), fixtures::normal()] {
                for part in render(kind, &report).split("font-size=\"").skip(1) {
                    let size: f64 = part.split('"').next().unwrap().parse().unwrap();
                    assert!(size * 0.8 >= 10.0, "{kind}: {size}");
                }
            }
        }
    }

    #[test]
    fn hostile_names_are_text_in_the_picture() {
        for kind in ALL {
            let svg = render(kind, &fixtures::hostile());
            assert!(!svg.contains("<script") && !svg.contains("]]>"), "{svg}");
            assert!(!svg.chars().any(|c| c != '\n' && crate::report::escape::is_invisible(c)));
        }
        for kind in ["timeline", "segments", "flamegraph", "steps"] {
            assert!(render(kind, &fixtures::hostile()).contains("script&gt;"), "{kind}");
        }
    }

    #[test]
    fn bands_and_marks_have_tooltips_and_the_picture_a_description() {
        let svg = render("timeline", &fixtures::oom());
        assert!(svg.contains("role=\"img\"") && svg.contains("<desc>"));
        assert!(svg.contains("prefers-color-scheme: dark"));
        for tooltip in
            [">train.py:100 step: ", ">step 7<", ">OOM: 400.0 MiB asked<", ">reserved: 520.0 MiB at most<"]
        {
            assert!(svg.contains(&format!("<title{tooltip}")), "{tooltip}");
        }
        assert!(!svg.contains("<script") && !svg.contains("http://www.w3.org/1999"));
    }

    #[test]
    fn broken_and_empty_timelines_are_drawn_all_the_same() {
        let mut report = fixtures::normal();
        let timelines = [
            Timeline::default(),
            Timeline { x: vec![0], band_names: vec!["a".to_owned()], ..Timeline::default() },
            Timeline {
                x: vec![0, u64::MAX],
                allocated: vec![u64::MAX; 2],
                reserved: vec![u64::MAX, 0],
                bands: vec![vec![u64::MAX]; 3],
                band_names: vec![String::new(); 3],
                ..Timeline::default()
            },
        ];
        for timeline in timelines {
            report.traces[0].devices[0].timeline = timeline;
            for kind in ["timeline", "fragmentation"] {
                assert!(render(kind, &report).ends_with("</svg>\n"));
            }
        }
    }

    /// Paths of 200 characters, and a function as long.
    fn long_names() -> Report {
        let mut report = fixtures::oom();
        let name = format!("/home/{}train.py:100 {}", "project/".repeat(24), "step_of_training_".repeat(12));
        report.traces[0].path.clone_from(&name);
        let device = &mut report.traces[0].devices[0];
        device.timeline.band_names.iter_mut().for_each(|band| band.clone_from(&name));
        picture_fixture::poison(&mut device.pictures, &name);
        report
    }

    #[test]
    fn long_names_are_cut_and_keep_their_file() {
        for kind in ["timeline", "segments", "steps"] {
            let svg = render(kind, &long_names());
            let texts = svg.lines().filter(|line| line.starts_with("<text"));
            let longest =
                texts.filter_map(|line| line.split_once('>')).map(|(_, text)| text.chars().count()).max();
            assert!(longest.unwrap() <= 132 + "</text>".len(), "{kind}");
            assert!(svg.contains("train.py:100 …"), "{kind}");
        }
    }

    /// Writes the pictures for a look: `MEMLAB_PICTURES=DIR cargo test --lib pictures_for_a_look`.
    #[test]
    fn pictures_for_a_look() {
        let Some(folder) = std::env::var_os("MEMLAB_PICTURES") else { return };
        let folder = std::path::PathBuf::from(folder);
        let reports = [
            ("oom", fixtures::oom()),
            ("normal", fixtures::normal()),
            ("late", fixtures::late()),
            ("hostile", fixtures::hostile()),
            ("long", long_names()),
        ];
        for (name, report) in reports {
            let (trace, device) = (&report.traces[0], &report.traces[0].devices[0]);
            for kind in ALL {
                if let Some(svg) = picture_svg(kind, trace, device) {
                    std::fs::write(folder.join(format!("{name}.{kind}.svg")), svg).unwrap();
                }
            }
        }
    }
}
