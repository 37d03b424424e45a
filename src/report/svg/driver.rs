//! `driver-timeline.svg`: who held the device's memory over time, by calls of the driver.
//!
//! Owns the choice of layers, names and notes; `draw` does the drawing.

use super::palette::{BANDS, FREE, OTHER, RESERVED, UNKNOWN};
use super::picture::{Curve, Layer, Note, Picture, near_device_bytes};
use super::timeline::{add, between, highest, note};
use crate::report::driver::{DriverDeviceRow, DriverReport};
use crate::report::driver_words as words;
use crate::report::types::{Timeline, TraceReport};

/// The timeline of `device`.
pub(super) fn picture<'a>(
    trace: &TraceReport,
    driver: &DriverReport,
    device: &'a DriverDeviceRow,
) -> Picture<'a> {
    let timeline = &device.timeline;
    let headline = words::headline(driver, device);
    let curves = if is_known(timeline) { vec![in_use(timeline)] } else { Vec::new() };
    Picture {
        title: super::title_of("Driver memory by holder", &trace.path, device.device),
        description: describe(timeline, &headline),
        subtitle: headline,
        timeline,
        layers: layers(timeline),
        curves,
        device_bytes: near_device_bytes(device.total_bytes, timeline),
        steps: 0,
        across: None,
        counts: "driver call",
    }
}

/// Whether readings say more than the calls do.
fn is_known(timeline: &Timeline) -> bool {
    timeline.reserved != timeline.allocated
}

fn in_use(timeline: &Timeline) -> Curve {
    Curve {
        name: "in use on the device".to_owned(),
        note: Note::bytes(highest(&timeline.reserved), "at most"),
        values: timeline.reserved.clone(),
        ink: RESERVED,
        width: 2,
    }
}

/// The holders, those without a colour of their own together; then what is in use by no recorded call.
fn layers(timeline: &Timeline) -> Vec<Layer> {
    let mut layers = Vec::new();
    let mut others: Vec<u64> = vec![0; timeline.x.len()];
    let mut rank = 0;
    for (name, values) in timeline.band_names.iter().zip(&timeline.bands) {
        let ink = match name.as_str() {
            "unknown" => Some(UNKNOWN),
            "other holders" => None,
            _ => {
                rank += 1;
                BANDS.get(rank - 1).copied()
            }
        };
        let Some(ink) = ink else {
            add(&mut others, values);
            continue;
        };
        if values.iter().any(|&bytes| bytes > 0) {
            let note = note(timeline, values);
            layers.push(Layer { name: name.clone(), note, values: values.clone(), ink });
        }
    }
    if others.iter().any(|&bytes| bytes > 0) {
        let note = note(timeline, &others);
        layers.push(Layer { name: "other holders".to_owned(), note, values: others, ink: OTHER });
    }
    if is_known(timeline) {
        let name = "in use, by no recorded call";
        layers.push(between(name, &timeline.reserved, &timeline.allocated, FREE));
    }
    layers
}

fn describe(timeline: &Timeline, headline: &str) -> String {
    let axis = if timeline.x_is_time { "time" } else { "calls" };
    let above = if is_known(timeline) {
        ", with what readings say is in use on the device above"
    } else {
        "; how much is in use on the device is not known"
    };
    format!(
        "Bytes that calls of the driver hold over {axis}, stacked by holder{above}. {headline}. Each pixel column shows \
         the lowest and the highest value of its calls."
    )
}

#[cfg(test)]
mod tests {
    use super::super::{driver_timeline_svg, tests::outlined};
    use super::*;
    use crate::report::{Report, driver_fixture, escape, timeline_fixture};

    fn draw(report: &Report) -> Option<String> {
        let trace = &report.traces[0];
        let driver = trace.driver.as_ref().unwrap();
        driver_timeline_svg(trace, driver, &driver.devices[0])
    }

    fn device(report: &mut Report) -> &mut DriverDeviceRow {
        &mut report.traces[0].driver.as_mut().unwrap().devices[0]
    }

    #[test]
    fn the_picture_is_as_agreed() {
        insta::assert_snapshot!("driver_timeline", outlined(&draw(&driver_fixture::full()).unwrap()));
    }

    #[test]
    fn layers_stack_up_to_what_is_in_use_with_more_holders_than_colours_too() {
        let mut report = driver_fixture::full();
        let timeline = &mut device(&mut report).timeline;
        timeline.bands = vec![vec![1; timeline.x.len()]; 14];
        timeline.band_names = (0..12).map(|n| format!("lib{n}.so")).collect();
        timeline.band_names.extend(["other holders".to_owned(), "unknown".to_owned()]);
        timeline.allocated = vec![14; timeline.x.len()];
        let trace = &report.traces[0];
        let driver = trace.driver.as_ref().unwrap();
        let picture = picture(trace, driver, &driver.devices[0]);
        assert_eq!(
            picture.stacked().pop().unwrap(),
            driver.devices[0].timeline.reserved.iter().map(|&b| b.max(14)).collect::<Vec<_>>()
        );
        assert_eq!(picture.layers.iter().filter(|layer| layer.ink == OTHER).count(), 1);
        let names: Vec<_> = picture.layers.iter().map(|layer| layer.name.as_str()).collect();
        assert_eq!(names[BANDS.len()..], ["unknown", "other holders", "in use, by no recorded call"]);
    }

    #[test]
    fn without_readings_nothing_is_drawn_above_and_without_samples_nothing_at_all() {
        let mut report = driver_fixture::leaks();
        let timeline = &mut device(&mut report).timeline;
        timeline.reserved = timeline.allocated.clone();
        let svg = draw(&report).unwrap();
        assert!(!svg.contains("no recorded call") && svg.contains("is not known"), "{svg}");
        device(&mut report).timeline = Timeline::default();
        assert!(draw(&report).is_none());
    }

    #[test]
    fn names_are_text_and_the_densest_stays_under_500_kb() {
        let mut report = driver_fixture::hostile(driver_fixture::full());
        let svg = draw(&report).unwrap();
        assert!(!svg.contains("<script") && svg.contains("script&gt;"));
        assert!(!svg.chars().any(|c| c != '\n' && escape::is_invisible(c)));
        device(&mut report).timeline = timeline_fixture::densest(40);
        assert!(draw(&report).unwrap().len() < 500_000);
        let broken = Timeline {
            x: vec![0, u64::MAX],
            bands: vec![vec![u64::MAX]; 3],
            band_names: vec![String::new(); 3],
            ..Timeline::default()
        };
        device(&mut report).timeline = broken;
        assert!(draw(&report).unwrap().ends_with("</svg>\n"));
    }
}
