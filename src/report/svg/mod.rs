//! The pictures of a report, drawn with plotters and finished by a small writer of our own.
//!
//! Owns `timeline.svg` and `fragmentation.svg`. A picture needs no script and no network, is the same bytes
//! for the same report, and stays under 500 KB however many events there were: see `outline`.

mod axis;
mod decorate;
mod diff;
mod draw;
mod fragmentation;
mod legend;
mod marks;
mod outline;
mod palette;
mod picture;
mod scale;
mod timeline;
mod whatif;

pub use diff::diff_svg;

use super::types::{DeviceReport, TraceReport};

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
    let name = trace.path.rsplit('/').next().unwrap_or_default();
    let name = super::escape::keep_end(name, 60);
    format!("{what}: {name}, device {}", device.device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Report, Timeline, fixtures, timeline_fixture};

    type Renderer = fn(&TraceReport, &DeviceReport) -> String;
    const BOTH: [Renderer; 2] = [timeline_svg, fragmentation_svg];

    fn render(renderer: Renderer, report: &Report) -> String {
        renderer(&report.traces[0], &report.traces[0].devices[0])
    }

    /// The picture with every number list cut short: what is left can be reviewed.
    fn outlined(svg: &str) -> String {
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
        insta::assert_snapshot!("timeline_oom", outlined(&render(timeline_svg, &fixtures::oom())));
        insta::assert_snapshot!("timeline_late", outlined(&render(timeline_svg, &fixtures::late())));
        insta::assert_snapshot!("fragmentation_oom", outlined(&render(fragmentation_svg, &fixtures::oom())));
    }

    #[test]
    fn the_same_report_gives_the_same_picture() {
        for renderer in BOTH {
            assert_eq!(render(renderer, &fixtures::normal()), render(renderer, &fixtures::normal()));
        }
    }

    #[test]
    fn the_densest_timeline_stays_under_500_kb() {
        for bands in [1, 12, 40] {
            let mut report = fixtures::normal();
            report.traces[0].devices[0].timeline = timeline_fixture::densest(bands);
            for renderer in BOTH {
                let svg = render(renderer, &report);
                assert!(svg.len() < 500_000, "{} bytes with {bands} bands", svg.len());
            }
        }
    }

    #[test]
    fn hostile_names_are_text_in_the_picture() {
        for renderer in BOTH {
            let svg = render(renderer, &fixtures::hostile());
            assert!(!svg.contains("<script") && !svg.contains("]]>"), "{svg}");
            assert!(!svg.chars().any(|c| c != '\n' && crate::report::escape::is_invisible(c)));
        }
        let svg = render(timeline_svg, &fixtures::hostile());
        assert!(svg.contains("&lt;script&gt;"));
    }

    #[test]
    fn bands_and_marks_have_tooltips_and_the_picture_a_description() {
        let svg = render(timeline_svg, &fixtures::oom());
        assert!(svg.contains("role=\"img\"") && svg.contains("<desc>"));
        assert!(svg.contains("prefers-color-scheme: dark"));
        for tooltip in [">train.py:100 step: ", ">step 7<", ">OOM: 400.0 MiB asked<", ">reserved: at most "] {
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
            for renderer in BOTH {
                assert!(render(renderer, &report).ends_with("</svg>\n"));
            }
        }
    }

    /// Writes the pictures for a look: `MEMLAB_PICTURES=DIR cargo test --lib pictures_for_a_look`.
    #[test]
    fn pictures_for_a_look() {
        let Some(folder) = std::env::var_os("MEMLAB_PICTURES") else { return };
        let folder = std::path::PathBuf::from(folder);
        for (name, report) in
            [("oom", fixtures::oom()), ("normal", fixtures::normal()), ("late", fixtures::late())]
        {
            std::fs::write(folder.join(format!("{name}.timeline.svg")), render(timeline_svg, &report))
                .unwrap();
            let svg = render(fragmentation_svg, &report);
            std::fs::write(folder.join(format!("{name}.fragmentation.svg")), svg).unwrap();
        }
    }
}
