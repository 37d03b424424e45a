//! What nvidia-smi sees, as a sum in one sentence.
//!
//! Owns how the sentence gives way where room is short: shorter words, fewer holders, and always the whole sum. Returns
//! terminal-safe text.

use super::driver::{DriverDeviceRow, DriverSumRow};
use super::driver_words::{accounted_for_more, moment, telling_sum};
use super::escape::{short_name, terminal};
use crate::units::{Bytes, Count};

/// Holders that the sentence names.
const MOST_PARTS: usize = 4;
/// Characters of a holder's name.
const LONGEST_HOLDER: usize = 28;
/// The holder whose name is long and well known.
const ALLOCATOR: &str = "PyTorch's caching allocator";

/// How a sum is put into a sentence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wording {
    /// Every part with its name, figures as everywhere.
    Full,
    /// The same with shorter words, and no decimals where figures have two digits before them.
    Brief,
    /// Holders, and all else in one figure.
    HoldersAlone,
}

/// What nvidia-smi sees, as a sum in one sentence of at most `characters`, where shorter words or fewer holders get it
/// there. The largest holder beside an allocator is named in any case.
pub(super) fn sum_sentence(device: &DriverDeviceRow, characters: usize) -> String {
    let Some(sum) = telling_sum(device) else {
        return "nvidia-smi: not known, the driver was never asked how much is in use".to_owned();
    };
    let fits = |text: &String| text.chars().count() <= characters;
    let whole = (2..=MOST_PARTS).rev().flat_map(|named| [(Wording::Full, named), (Wording::Brief, named)]);
    let cut = (2..=MOST_PARTS).rev().map(|named| (Wording::HoldersAlone, named));
    whole
        .chain(cut)
        .map(|(wording, named)| spelled_out(sum, wording, named))
        .find(fits)
        .unwrap_or_else(|| spelled_out(sum, Wording::HoldersAlone, 2))
}

fn spelled_out(sum: &DriverSumRow, wording: Wording, named: usize) -> String {
    let used = figure(sum.used_bytes, wording);
    let mut text = match wording {
        Wording::Full => format!("nvidia-smi {}: {used} in use", moment(&sum.at)),
        _ => format!("nvidia-smi {}: {used}", moment(&sum.at).replace("at the", "at")),
    };
    for (index, part) in parts(sum, wording, named).iter().enumerate() {
        text.extend([if index == 0 { " = " } else { " + " }, part]);
    }
    if sum.unknown_bytes < 0 {
        text.push_str(&format!("; {}", accounted_for_more(sum.unknown_bytes)));
    }
    text
}

/// Bytes, without a decimal where the wording is brief and two digits stand before it.
fn figure(bytes: u64, wording: Wording) -> String {
    const UNITS: [(u64, &str); 4] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.iter().find(|(unit, _)| bytes >= *unit);
    match unit {
        Some((unit, name)) if wording != Wording::Full && bytes >= 10 * unit => {
            format!("{} {name}", Count(bytes.saturating_add(unit / 2) / unit))
        }
        _ => Bytes(bytes).to_string(),
    }
}

fn parts(sum: &DriverSumRow, wording: Wording, named: usize) -> Vec<String> {
    let part = |name: &str, bytes: u64| format!("{name} {}", figure(bytes, wording));
    let held: Vec<_> = sum.parts.iter().filter(|part| part.bytes > 0).collect();
    let (told, rest) = held.split_at(named.min(held.len()));
    let mut parts: Vec<String> =
        told.iter().map(|row| part(&holder(&row.holder, wording), row.bytes)).collect();
    if wording == Wording::HoldersAlone {
        let left = told.iter().fold(sum.used_bytes, |left, row| left.saturating_sub(row.bytes));
        parts.extend((left > 0).then(|| part("all else", left)));
        return parts;
    }
    if !rest.is_empty() {
        let bytes = rest.iter().fold(0u64, |sum, part| sum.saturating_add(part.bytes));
        parts.push(part(&format!("{} more", Count(rest.len() as u64)), bytes));
    }
    // In a sentence, what the driver takes by itself is one figure.
    let own = sum.context_bytes.map(|context| context.saturating_add(sum.loaded_bytes.unwrap_or(0)));
    let others = [("context", own), ("others", sum.others_bytes)];
    for (name, bytes) in others {
        parts.extend(bytes.filter(|&bytes| bytes > 0).map(|bytes| part(name, bytes)));
    }
    if sum.unknown_bytes > 0 {
        let missing: Vec<&str> =
            others.iter().filter(|(_, bytes)| bytes.is_none()).map(|(name, _)| *name).collect();
        let within = match (missing.is_empty(), wording) {
            (true, _) => String::new(),
            (false, Wording::Full) => format!(" ({} in it, not known apart)", missing.join(" and ")),
            (false, _) => format!(" (with {})", missing.join(", ")),
        };
        parts.push(part("unknown", sum.unknown_bytes.unsigned_abs()) + &within);
    }
    parts
}

/// A holder's name as it stands in a sentence, with every character visible.
fn holder(name: &str, wording: Wording) -> String {
    if wording != Wording::Full && name == ALLOCATOR {
        return "PyTorch".to_owned();
    }
    holder_name(name)
}

/// A holder's name at full length, with every character visible.
pub(super) fn holder_name(name: &str) -> String {
    short_name(&terminal(name), LONGEST_HOLDER).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Report, driver_fixture};

    fn device(report: Report) -> DriverDeviceRow {
        report.traces.into_iter().next().and_then(|trace| trace.driver).unwrap().devices.remove(0)
    }

    #[test]
    fn a_sum_says_what_is_not_known_and_what_is_too_much() {
        let mut device = device(driver_fixture::leaks());
        assert_eq!(
            sum_sentence(&device, 200),
            "nvidia-smi at the peak: 1.4 GiB in use = leaks 640.0 MiB + context 512.0 MiB + others 307.0 MiB + \
             unknown 1.0 MiB"
        );
        device.sums[1].unknown_bytes = -1024;
        assert!(sum_sentence(&device, 200).ends_with("MiB; calls account for 1.0 KiB more than is in use"));
        (device.sums[1].context_bytes, device.sums[1].others_bytes) = (None, None);
        device.sums[1].loaded_bytes = None;
        device.sums[1].unknown_bytes = 820 << 20;
        let said = sum_sentence(&device, 200);
        assert!(said.ends_with("unknown 820.0 MiB (context and others in it, not known apart)"), "{said}");
        device.sums.clear();
        assert!(sum_sentence(&device, 200).contains("not known"));
    }

    #[test]
    fn where_room_is_short_fewer_holders_are_named_and_the_sum_stays_whole() {
        let device = device(driver_fixture::full());
        let long = sum_sentence(&device, 1_000);
        assert!(long.contains("cuDNN 120.0 MiB + 1 more 65.0 MiB + context 512.0 MiB"), "{long}");
        let short = sum_sentence(&device, 180);
        assert!(short.chars().count() <= 180 && short.ends_with("unknown 682 MiB"), "{short}");
        assert!(short.contains("PyTorch ") && short.contains("NCCL 1.0 GiB + "), "{short}");
        let shortest = sum_sentence(&device, 100);
        assert!(shortest.chars().count() <= 100, "{shortest}");
        assert!(shortest.contains("NCCL 1.0 GiB") && shortest.contains(" + all else "), "{shortest}");
    }

    #[test]
    fn brief_figures_are_rounded_once_and_short_ones_keep_their_decimal() {
        let brief = |bytes| figure(bytes, Wording::Brief);
        assert_eq!(brief(134_481_920), "128 MiB");
        assert_eq!(brief((127 << 20) + (1 << 19)), "128 MiB");
        assert_eq!([1 << 30, 0, 5_000].map(brief), ["1.0 GiB", "0 B", "4.9 KiB"]);
    }
}
