//! The whole page.

use super::*;
use crate::report::types::{DeviceReport, LineRow, SourceRow};
use crate::report::{Report, driver_fixture, escape, fixtures};

fn made(report: &Report) -> String {
    let options = HtmlOptions {
        tool: report.tool.clone(),
        command: "memlab report runs/snapshot.pickle -o report.html".to_owned(),
    };
    html(&report.traces[0], &[], &options)
}

/// Bytes of a page but for its blobs, styles and scripts; the views' scripts have some 200 KB.
const MOST_TEXT: usize = 780_000;

fn text_of(report: &Report) -> usize {
    let page = around(&report.traces[0], &[], &HtmlOptions::default());
    let page = without(&page, "<style>", "</style>");
    without(&page, "<script type=\"module\">", "</script>").len()
}

/// A second device, like the first.
fn add_device(report: &mut Report, number: u32) {
    let device = report.traces[0].devices[0].clone();
    report.traces[0].devices.push(DeviceReport { device: number, ..device });
}

/// `text` without what stands between `open` and `close`.
fn without(text: &str, open: &str, close: &str) -> String {
    let mut parts = text.split(open);
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept += open;
        kept += "...";
        kept += part.find(close).map_or("", |at| &part[at..]);
    }
    kept
}

/// The page less what is reviewed elsewhere: style sheets, scripts, blobs, pictures and the policy's hashes.
fn reviewed(page: &str) -> String {
    let text = without(page, "<style>", "</style>");
    let text = without(&text, "<script type=\"module\">", "</script>");
    let text = without(&text, "<script type=\"application/octet-stream\" id=\"memlab-report\">", "</script>");
    let text = without(&text, "base64,", "\"");
    without(&text, "sha256-", "&#39;")
}

#[test]
fn the_pages_are_as_agreed() {
    insta::assert_snapshot!("html_oom", reviewed(&made(&fixtures::oom())));
    insta::assert_snapshot!("html_late", reviewed(&made(&fixtures::late())));
    insta::assert_snapshot!("html_recorded", reviewed(&made(&fixtures::recorded())));
}

#[test]
fn the_answer_stands_above_the_pictures() {
    let page = made(&fixtures::oom());
    let places = [
        "OOM: 400.0 MiB asked",
        "440.0 MiB are free but no block serves 400.0 MiB",
        "id=\"figures-0\"",
        "id=\"timeline-0\"",
        "id=\"state-0\"",
        "id=\"lines-0\"",
        "id=\"flame-0\"",
        "id=\"steps-0\"",
        "id=\"fragmentation-0\"",
        "id=\"settings\"",
        "<script type=\"module\">",
    ];
    let places = places.map(|part| page.find(part));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}");
}

#[test]
fn every_link_of_the_page_leads_to_a_place_that_is_there_once() {
    let mut report = fixtures::recorded();
    add_device(&mut report, 3);
    let drivers = [driver_fixture::full(), driver_fixture::leaks()].map(|report| made(&report));
    for page in [made(&fixtures::late()), made(&report)].into_iter().chain(drivers) {
        let mut ids: Vec<&str> =
            page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        for link in page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(ids.contains(&link), "{link}");
        }
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }
}

#[test]
fn hostile_names_are_text() {
    let mut report = fixtures::hostile();
    let text = vec![fixtures::HOSTILE.to_owned(), "</script><script>alert(2)".to_owned()];
    let device = &mut report.traces[0].devices[0];
    device.lines[0].source =
        Some(SourceRow { file: fixtures::HOSTILE.to_owned(), first: 1, text: text.clone() });
    device.lines[1].stack = Some(text);
    let page = made(&report);
    let frame = without(&without(&page, "<style>", "</style>"), "<script type=\"module\">", "</script>");
    assert_eq!(frame.matches("<script").count(), 2, "the blob of the report and the module");
    assert!(frame.contains("&lt;script&gt;alert(1)"));
    assert!(!page.chars().any(|letter| letter != '\n' && escape::is_invisible(letter)));
}

#[test]
fn nothing_is_loaded_and_nothing_is_styled_in_place() {
    let driver = driver_fixture::hostile(driver_fixture::full());
    for report in [fixtures::recorded(), fixtures::hostile(), driver] {
        let page = made(&report);
        let frame = without(&page, "<script type=\"module\">", "</script>");
        assert!(!frame.contains("http://") && !frame.contains("https://"));
        assert!(!frame.contains(" style="));
        for attribute in ["src=\"", "href=\""] {
            for target in frame.split(attribute).skip(1) {
                assert!(target.starts_with("data:image/svg+xml;base64,") || target.starts_with('#'));
            }
        }
        for handler in [" onclick=", " onload=", " onerror=", "javascript:", "@import", "url("] {
            assert!(!frame.contains(handler), "{handler}");
        }
    }
}

#[test]
fn scripts_take_no_text_for_markup() {
    for script in SCRIPTS {
        for way in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
        {
            assert!(!script.contains(way), "{way}");
        }
        assert!(!script.contains("</script") && !script.contains("<!--"));
    }
}

#[test]
fn the_same_report_gives_the_same_page() {
    assert_eq!(made(&fixtures::recorded()), made(&fixtures::recorded()));
}

#[test]
fn blobs_stand_behind_the_text_as_what_no_browser_runs() {
    let pages = [PageDevice { packed: vec![1, 2, 3], ..PageDevice::default() }];
    let page = html(&fixtures::normal().traces[0], &pages, &HtmlOptions::default());
    let blob = "<script type=\"application/octet-stream\" id=\"memlab-device-0\">AQID</script>\n";
    assert!(page.find("</main>").unwrap() < page.find(blob).unwrap());
}

#[test]
fn many_devices_rows_and_names_leave_two_megabytes_to_the_blobs() {
    let mut report = fixtures::many_lines(3_000);
    let trace = &mut report.traces[0];
    let device = trace.devices[0].clone();
    trace.devices =
        (0..300).map(|device_number| DeviceReport { device: device_number, ..device.clone() }).collect();
    trace.findings = vec![trace.findings[1].clone(); 500];
    trace.warnings = vec![fixtures::late().traces[0].warnings[0].clone(); 5_000];
    trace.process = vec![("name".repeat(900), "value".repeat(900)); 500];
    trace.path = "p".repeat(100_000);
    assert!(text_of(&report) < MOST_TEXT, "{}", text_of(&report));
    let page = around(&report.traces[0], &[], &HtmlOptions::default());
    assert!(page.contains("more devices"));
    report.traces[0].devices.truncate(1);
    assert!(text_of(&report) < MOST_TEXT, "{}", text_of(&report));
    let mut hostile = fixtures::hostile();
    let row = LineRow {
        file: Some("'\u{202e}".repeat(5_000)),
        function: Some("\"".repeat(5_000)),
        ..LineRow::default()
    };
    hostile.traces[0].devices[0].lines = vec![row; 3_000];
    assert!(text_of(&hostile) < MOST_TEXT, "{}", text_of(&hostile));
}

#[test]
fn a_page_of_driver_calls_alone_says_what_it_is_and_has_no_empty_views() {
    let report = driver_fixture::leaks();
    let page = made(&report);
    let frame = without(&page, "<script type=\"module\">", "</script>");
    for part in [
        "A recording of driver calls",
        "leaks.cu:27 runtime",
        "Driver calls</dt>",
        "href=\"#driver\"",
        "no rule",
        "id=\"memlab-report\"",
    ] {
        assert!(frame.to_lowercase().contains(&part.to_lowercase()), "{part}");
    }
    for part in ["class=\"view", "data-device=", "No device has", "looks wasted"] {
        assert!(!frame.contains(part), "{part}");
    }
    let mut beside = driver_fixture::full();
    assert!(!made(&beside).contains("A recording of driver calls"), "the device's verdict is the verdict");
    beside.traces[0].driver = None;
    assert!(!made(&beside).contains("id=\"driver"));
}

#[test]
fn driver_calls_leave_two_megabytes_to_the_blobs_too() {
    let alone = driver_fixture::many(5_000);
    assert!(text_of(&alone) < MOST_TEXT, "{}", text_of(&alone));
    let mut beside = fixtures::many_lines(3_000);
    let device = beside.traces[0].devices[0].clone();
    beside.traces[0].devices = (0..300).map(|n| DeviceReport { device: n, ..device.clone() }).collect();
    beside.traces[0].driver = alone.traces.into_iter().next().and_then(|trace| trace.driver);
    assert!(text_of(&beside) < MOST_TEXT, "{}", text_of(&beside));
}

#[test]
fn broken_reports_still_give_pages() {
    let mut report = fixtures::late();
    report.traces[0].devices[0].timeline = crate::report::Timeline::default();
    assert!(made(&report).ends_with("</html>\n") || made(&report).ends_with("</html>"));
    report.traces[0].devices.clear();
    assert!(made(&report).contains("No device has events"));
}

/// Writes the pages for a look: `MEMLAB_PICTURES=DIR cargo test --lib pages_for_a_look`.
#[test]
fn pages_for_a_look() {
    let Some(folder) = std::env::var_os("MEMLAB_PICTURES") else { return };
    let folder = std::path::PathBuf::from(folder);
    let mut several = fixtures::recorded();
    add_device(&mut several, 1);
    for (name, report) in [
        ("oom", fixtures::oom()),
        ("late", fixtures::late()),
        ("recorded", several),
        ("hostile", fixtures::hostile()),
        ("many", fixtures::many_lines(2_500)),
        ("driver", driver_fixture::full()),
        ("leaks", driver_fixture::leaks()),
        ("driver-hostile", driver_fixture::hostile(driver_fixture::full())),
    ] {
        std::fs::write(folder.join(format!("{name}.html")), made(&report)).unwrap();
        std::fs::write(folder.join(format!("{name}.json")), crate::report::json(&report)).unwrap();
    }
}
