//! What driver calls say, in the words that every output shares: sums, verdicts, gaps.
//!
//! Owns wording. Returns raw text: whoever prints it escapes it. What is not known is said, and is never a zero.

use super::driver::{
    DriverDeviceRow, DriverJoinRow, DriverKindRow, DriverRefusedRow, DriverReport, DriverSumRow, SymbolsRow,
};
use super::driver_sentence::holder_name;
use super::escape::short_name;
use crate::units::{Bytes, Count, percent};

/// The driver's result for "out of memory".
const OUT_OF_MEMORY: u32 = 2;

/// The moments of sums in the order in which they are shown.
pub(super) const MOMENTS: [&str; 4] = ["first", "peak", "oom", "end"];

/// How people read a sum's moment.
pub(super) fn moment(at: &str) -> &str {
    match at {
        "first" => "at the first reading",
        "peak" => "at the peak",
        "oom" => "at the OOM",
        "end" => "at the end",
        other => other,
    }
}

/// The sum of `at`; of several the last one.
pub(super) fn sum_at<'a>(device: &'a DriverDeviceRow, at: &str) -> Option<&'a DriverSumRow> {
    device.sums.iter().rev().find(|sum| sum.at == at)
}

/// The sum that explains most: at the OOM, else at the peak, else the last one.
pub(super) fn telling_sum(device: &DriverDeviceRow) -> Option<&DriverSumRow> {
    sum_at(device, "oom").or_else(|| sum_at(device, "peak")).or(device.sums.last())
}

/// What the table of a sum says, for those who read it for the first time.
pub(super) const ABOUT_SUMS: &str = "Holders, context, loaded since, others and unknown add up to what is in use. Others are \
    other processes, and what the driver keeps for itself even when nobody uses the device. Unknown is what is left; \
    negative where calls account for more than is in use.";

/// What the table of lines says; `has_events` if the allocator's events are at hand.
pub(super) fn about_lines(has_events: bool) -> String {
    let mut text = "Held at peak: when the device's total peaks. Kept: not given back by the end.".to_owned();
    if has_events {
        text.push_str(" PyTorch's allocator is one row; its lines are those of the device.");
    }
    text
}

/// What is worth knowing of holders, each with its name.
pub(super) fn holder_notes(device: &DriverDeviceRow) -> impl Iterator<Item = (&str, &str)> {
    device.holders.iter().filter_map(|row| Some((row.holder.as_str(), row.note.as_deref()?)))
}

/// What a negative remainder means.
pub(super) fn accounted_for_more(unknown: i64) -> String {
    format!("calls account for {} more than is in use", Bytes(unknown.unsigned_abs()))
}

/// What the recorded calls took on `device` and gave back.
pub(super) fn headline(report: &DriverReport, device: &DriverDeviceRow) -> String {
    let (peak, end) = (Bytes(device.peak_bytes), Bytes(device.end_bytes));
    if device.peak_bytes == 0 {
        return "No device memory is held by the recorded calls".to_owned();
    }
    let mut text = format!("Recorded calls hold {peak} at the peak, {end} at the end: ");
    let kept = kept(device);
    if kept == 0 && device.end_bytes == 0 {
        return text + "everything was given back";
    }
    if !report.complete {
        text.push_str("as far as is known, ");
    }
    text.push_str(&format!("{kept} of {} were not given back", counted(taken(device), "allocation")));
    let most = device.lines.iter().filter(|row| row.kept_bytes > 0).max_by_key(|row| row.kept_bytes);
    if let Some(row) = most {
        text.push_str(&format!(", most by {} ({})", short_name(&row.label(), 60), Bytes(row.kept_bytes)));
    }
    text
}

fn taken(device: &DriverDeviceRow) -> u64 {
    device.holders.iter().fold(0, |sum, row| row.taken.saturating_add(sum))
}

fn kept(device: &DriverDeviceRow) -> u64 {
    device.holders.iter().fold(0, |sum, row| row.taken.saturating_sub(row.given_back).saturating_add(sum))
}

/// `1 call`, `2 calls`.
pub(super) fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", Count(count), if count == 1 { "" } else { "s" })
}

/// Which calls these are, and who made them.
pub(super) fn calls_sentence(report: &DriverReport) -> String {
    let mut text = counted(report.calls, "driver call");
    if report.failed_calls > 0 {
        text.push_str(&format!(" ({} failed)", Count(report.failed_calls)));
    }
    match &report.program {
        Some(program) => text.push_str(&format!(" of {}", short_name(program, 40))),
        None => text.push_str(" of a program that is not named"),
    }
    match &report.hook {
        Some(hook) => text.push_str(&format!(", seen by {}", short_name(hook, 20))),
        None => text.push_str(", how they were seen is not known"),
    }
    text
}

/// A request that the driver refused.
pub(super) fn refused_sentence(row: &DriverRefusedRow) -> String {
    let held = match row.device {
        Some(_) => format!(" while calls held {}", Bytes(row.held_bytes)),
        None => String::new(),
    };
    let (bytes, result, place) = (Bytes(row.bytes), result(row.result), short_name(&row.place, 60));
    format!("{bytes} refused ({result}) at {place}{held}; asked by {}", holder_name(&row.holder))
}

/// A call's result in words.
pub(super) fn result(result: u32) -> String {
    match result {
        OUT_OF_MEMORY => "out of memory".to_owned(),
        other => format!("error {other}"),
    }
}

/// The allocator's segments against the driver's memory.
pub(super) fn join_sentence(join: &DriverJoinRow) -> String {
    let mut text = format!(
        "{} of {} ({}) are driver memory at the same address and size; of {} held at the end ({}), {} ({}) are.",
        Count(join.matched),
        counted(join.segments, "segment"),
        Bytes(join.matched_bytes),
        Count(join.live_segments),
        Bytes(join.live_bytes),
        Count(join.live_matched),
        Bytes(join.live_matched_bytes)
    );
    if join.takings_without_segment > 0 {
        text.push_str(&format!(
            " {} by PyTorch's allocator belong to no segment: from before or after the recording of its events.",
            counted(join.takings_without_segment, "allocation")
        ));
    }
    text
}

/// How much of one kind was held.
pub(super) fn kind_sentence(row: &DriverKindRow) -> String {
    let (peak, end) = (Bytes(row.peak_bytes), Bytes(row.end_bytes));
    format!("{} {peak} at most, {end} at the end", short_name(&row.kind, 20))
}

/// How far machine code could be given names; `None` without machine code.
pub(super) fn symbols_sentence(symbols: &SymbolsRow) -> Option<String> {
    let frames = Count(symbols.frames);
    if symbols.frames == 0 {
        return None;
    }
    if !symbols.asked {
        return Some(format!(
            "{frames} frames of machine code have no names: `--symbols` takes them from the binaries"
        ));
    }
    Some(format!(
        "{} of {frames} frames of machine code ({}) have a line, {} a function alone",
        Count(symbols.with_line),
        percent(symbols.with_line, symbols.frames),
        Count(symbols.with_function)
    ))
}

/// What the reader must know before trusting the figures.
pub(super) fn notes(report: &DriverReport) -> Vec<String> {
    let mut notes = Vec::new();
    if !report.complete {
        notes.push(
            "the recording of calls was not closed: what is live at the end may have been given back"
                .to_owned(),
        );
    }
    if report.hook.as_deref() == Some("preload") {
        notes.push("calls were seen by name: what libraries call inside the driver is missing".to_owned());
    }
    if report.unknown_frees > 0 {
        let frees = counted(report.unknown_frees, "free");
        notes.push(format!("{frees} of memory whose taking was not recorded"));
    }
    if report.unseen_frees > 0 {
        let times = counted(report.unseen_frees, "allocation");
        notes.push(format!("{times} at an address that was in use: a free before was not seen"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Report, driver_fixture};

    fn driver(report: Report) -> DriverReport {
        report.traces.into_iter().next().and_then(|trace| trace.driver).unwrap()
    }

    fn device() -> DriverDeviceRow {
        driver(driver_fixture::leaks()).devices.remove(0)
    }

    #[test]
    fn the_sums_of_the_fixtures_are_sums() {
        for report in [driver_fixture::full(), driver_fixture::leaks()] {
            for sum in driver(report).devices.iter().flat_map(|device| &device.sums) {
                let held: u64 = sum.parts.iter().map(|part| part.bytes).sum();
                let own = sum.context_bytes.unwrap() + sum.loaded_bytes.unwrap();
                let known = held + own + sum.others_bytes.unwrap();
                assert_eq!(known as i64 + sum.unknown_bytes, sum.used_bytes as i64, "{}", sum.at);
            }
        }
    }

    #[test]
    fn an_oom_tells_more_than_the_peak_and_the_last_more_than_the_first() {
        let mut device = driver(driver_fixture::full()).devices.remove(0);
        assert_eq!(telling_sum(&device).unwrap().at, "oom");
        let mut later = device.sums[2].clone();
        later.used_bytes += 1;
        device.sums.insert(3, later.clone());
        assert_eq!(telling_sum(&device), Some(&later));
    }

    #[test]
    fn the_headline_says_what_was_kept_and_by_whom() {
        let mut report = driver(driver_fixture::leaks());
        let mut device = device();
        assert_eq!(
            headline(&report, &device),
            "Recorded calls hold 640.0 MiB at the peak, 64.0 MiB at the end: 1 of 10 allocations were not given \
             back, most by leaks.cu:27 runtime (64.0 MiB)"
        );
        report.complete = false;
        assert!(headline(&report, &device).contains("as far as is known, 1 of 10"));
        (device.end_bytes, device.holders[0].given_back) = (0, 10);
        assert!(headline(&report, &device).ends_with("everything was given back"));
        device.peak_bytes = 0;
        assert!(headline(&report, &device).starts_with("No device memory"));
    }

    #[test]
    fn without_symbols_it_says_how_to_get_them() {
        let asked = driver(driver_fixture::full()).symbols;
        let said = symbols_sentence(&asked).unwrap();
        assert_eq!(
            said,
            "3,000 of 5,120 frames of machine code (58.6 %) have a line, 2,000 a function alone"
        );
        assert!(symbols_sentence(&SymbolsRow { asked: false, ..asked }).unwrap().contains("`--symbols`"));
        assert_eq!(symbols_sentence(&SymbolsRow::default()), None);
    }

    #[test]
    fn gaps_are_notes() {
        let mut report = driver(driver_fixture::full());
        assert_eq!(notes(&report).len(), 3);
        report.hook = Some("preload".to_owned());
        assert!(notes(&report)[1].contains("by name"));
        assert!(notes(&driver(driver_fixture::leaks())).is_empty());
    }
}
