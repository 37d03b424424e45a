//! What driver calls add to the page: a verdict where there is nothing else, and sections.
//!
//! Owns their order, how the room is shared out, and the table of sums; the other tables are `driver_tables`'.

use super::driver_tables as tables;
use super::table::Page;
use super::{code, picture_name, prose};
use crate::report::driver::{DriverDeviceRow, DriverReport};
use crate::report::driver_sentence::sum_sentence;
use crate::report::driver_sums::{Part, SumTable};
use crate::report::driver_words as words;
use crate::report::svg;
use crate::units::{Bytes, SignedBytes};

/// A device that gets less room is only counted.
const LEAST_FOR_A_DEVICE: usize = 2_500;

/// The verdict of a trace that has nothing but driver calls.
pub(super) fn verdicts(page: &mut Page, driver: &DriverReport) {
    if driver.devices.is_empty() {
        page.block("**No device memory is held by the recorded calls.**");
    }
    for (index, device) in driver.devices.iter().enumerate() {
        let text = format!(
            "**Device {}: {}.** {}.",
            device.device,
            prose(&words::headline(driver, device)),
            prose(&sum_sentence(device, usize::MAX))
        );
        if index > 0 && page.room() < 20_000 || !page.block(&text) {
            page.note(&format!("{} more devices.", driver.devices.len() - index));
            break;
        }
    }
}

/// All sections, on a page as large as they may be.
pub(super) fn sections(page: &mut Page, driver: &DriverReport, pictures: bool) {
    let room = page.room();
    page.heading(2, "Driver calls");
    page.block(&format!("{}.", prose(&words::calls_sentence(driver))));
    let notes: Vec<String> =
        words::notes(driver).iter().map(|text| format!("Mind: {}.", prose(text))).collect();
    page.list(&notes, 1_500);
    let shown = (page.room() / 2 / LEAST_FOR_A_DEVICE).max(1).min(driver.devices.len());
    for (index, device) in driver.devices.iter().take(shown).enumerate() {
        let mut part = Page::new(page.room() * 3 / 4 / (shown - index));
        self::device(&mut part, driver, device, pictures);
        page.append(part);
    }
    if shown < driver.devices.len() {
        page.block(&format!("{} more devices: see report.json.", driver.devices.len() - shown));
    }
    if let Some(host) = &driver.host {
        tables::host(page, host, room / 10);
    }
    tables::refused(page, driver, room / 10);
    tables::symbols(page, &driver.symbols, room / 10);
}

fn device(page: &mut Page, driver: &DriverReport, device: &DriverDeviceRow, pictures: bool) {
    let room = page.room();
    let which = if driver.devices.len() > 1 { format!(", device {}", device.device) } else { String::new() };
    page.heading(3, &format!("What nvidia-smi sees{which}"));
    sums(page, device, room / 4);
    page.block(&format!("{}.", prose(&words::headline(driver, device))));
    page.heading(3, &format!("Holders{which}"));
    tables::holders(page, device, room / 4);
    page.heading(3, &format!("Lines of driver memory{which}"));
    tables::lines(page, device, room / 3);
    if let Some(join) = &device.join {
        page.heading(3, &format!("Segments and driver memory{which}"));
        page.block(&words::join_sentence(join));
    }
    if pictures && svg::has_driver_timeline(device) {
        let name = picture_name(svg::DRIVER_PICTURE, device.device);
        page.block(&format!("![Driver memory by holder over time]({name})"));
    }
}

fn sums(page: &mut Page, device: &DriverDeviceRow, share: usize) {
    let Some(table) = SumTable::of(device) else {
        page.block("Not known: the driver was never asked how much is in use.");
        return;
    };
    let mut header = vec!["part"];
    header.extend(table.moments.iter().map(|at| words::moment(at)));
    let rows: Vec<Vec<String>> = table
        .rows
        .iter()
        .map(|row| {
            let name = match &row.part {
                Part::Holder(name) => code(name),
                other => other.words().unwrap_or_default(),
            };
            [name].into_iter().chain(row.cells.iter().map(|cell| figure(*cell))).collect()
        })
        .collect();
    // Holders give way; the rows behind them are what makes it a sum.
    let holders = rows.len() - table.rows.iter().rev().take_while(|row| row.part.words().is_some()).count();
    page.table(&header, 0, &rows[..holders], &rows[holders..], share);
    let total = device.total_bytes.map_or_else(
        || "The size of the device is not known".to_owned(),
        |total| format!("The device has {}", Bytes(total)),
    );
    page.block(&format!("{total}. {}", words::ABOUT_SUMS));
}

fn figure(bytes: Option<i64>) -> String {
    match bytes {
        None => "not known".to_owned(),
        Some(bytes) if bytes < 0 => SignedBytes(bytes).to_string(),
        Some(bytes) => Bytes(bytes.unsigned_abs()).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use crate::report::markdown::{MarkdownOptions, markdown};
    use crate::report::{Report, driver_fixture, escape};

    fn page(report: &Report) -> String {
        let options = MarkdownOptions {
            tool: report.tool.clone(),
            command: "memlab analyze runs/snapshot.pickle -o report".to_owned(),
            pictures: true,
        };
        markdown(&report.traces[0], &options)
    }

    /// The sections of driver calls alone.
    fn sections(report: &Report) -> String {
        let text = page(report);
        let from = text.find("## Driver calls").unwrap();
        text[from..].split("\n## ").next().unwrap().to_owned()
    }

    #[test]
    fn the_sections_are_as_agreed() {
        insta::assert_snapshot!("markdown_driver", sections(&driver_fixture::full()));
        insta::assert_snapshot!("markdown_driver_leaks", page(&driver_fixture::leaks()));
    }

    #[test]
    fn what_is_not_known_is_no_zero() {
        let mut report = driver_fixture::leaks();
        let device = &mut report.traces[0].driver.as_mut().unwrap().devices[0];
        for sum in &mut device.sums {
            (sum.context_bytes, sum.unknown_bytes) = (None, -2048);
        }
        let text = page(&report);
        assert!(text.contains("| context, as at the first reading | not known | not known |"), "{text}");
        assert!(text.contains("| unknown | -2.0 KiB | -2.0 KiB |"), "{text}");
        report.traces[0].driver.as_mut().unwrap().devices[0].sums.clear();
        assert!(page(&report).contains("Not known: the driver was never asked"));
    }

    #[test]
    fn hostile_names_become_neither_markup_nor_rows() {
        for report in [driver_fixture::full(), driver_fixture::leaks()] {
            let text = page(&driver_fixture::hostile(report));
            assert!(!text.contains("<script"), "{text}");
            assert!(!text.chars().any(|c| c != '\n' && escape::is_invisible(c)));
            let columns = |line: &str| line.replace("\\|", "").matches('|').count();
            let mut before = 0;
            for line in text.lines() {
                let now = if line.starts_with('|') { columns(line) } else { 0 };
                assert!(before == 0 || now == 0 || before == now, "{line}");
                before = now;
            }
        }
    }

    #[test]
    fn pages_of_any_recording_stay_under_60_000_characters() {
        let mut report = driver_fixture::many(5_000);
        assert!(page(&report).chars().count() < 60_000);
        assert!(page(&report).contains("## Settings, versions") && page(&report).contains("### Refused"));
        let driver = report.traces[0].driver.as_mut().unwrap();
        driver.devices = vec![driver.devices[0].clone(); 200];
        let text = page(&report);
        assert!(text.chars().count() < 60_000, "{}", text.chars().count());
        assert!(text.contains("more devices"));
    }

    #[test]
    fn a_large_allocator_leaves_room_for_driver_calls() {
        let mut report = crate::report::fixtures::many_lines(5_000);
        report.traces[0].driver = driver_fixture::full().traces.remove(0).driver;
        let text = page(&report);
        assert!(text.chars().count() < 60_000 && text.contains("### Lines of driver memory"), "{text}");
    }
}
