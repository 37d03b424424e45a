//! `odd-schema`: the file is not shaped as expected.

use crate::findings::faults::{Fault, fault};
use crate::findings::{Check, DeviceFacts, Finding, Guide, Rule, Severity};
use crate::model::{Trace, Warning};
use crate::units::Count;

/// The rule.
pub(crate) static RULE: Rule = Rule {
    name: "odd-schema",
    heading: "The file is not shaped as expected",
    guide: Guide {
        says: "Something in the file is not as PyTorch or memlab's recorder write it: keys without a known meaning, \
            keys that should be there, values that cannot be, events that contradict each other or the final state. \
            The finding counts each kind and shows the first example.",
        fires: "When reading or rebuilding met at least one such thing. `warning` when there are values that cannot \
            be, or when contradictions are at least 1 % of the events; else `info`. Contradictions in a file that \
            also lacks events are not counted here: they follow from the gap, and `history-incomplete` tells of it.",
        why: "A sound file has none at all, of any PyTorch from 1.13 to 2.15, so one is enough to mention it. \
            Contradictions in one event of a hundred mean that totals cannot be trusted to the byte any more.",
        needs: "Nothing: every file is checked while it is read.",
        is_not: "It says nothing about the recorded program. Unknown keys and actions are left out and change no \
            figure: they are what a newer PyTorch, or another tool that wrote or edited the file, adds.",
        remedy: "For unknown keys and actions, see whether there is a newer memlab. For impossible values and \
            contradictions, record again and do not edit the file; if a file comes straight from PyTorch and is \
            still odd, it is worth a bug report: the counts and the first example are what the report needs.",
    },
    check: Check::Trace(find),
};

/// Kinds with the words for one and for many, in the order in which they are told.
const KINDS: [(&str, &str, &str); 11] = [
    ("impossible-value", "impossible value", "impossible values"),
    ("odd-value", "value of the wrong kind", "values of the wrong kind"),
    ("missing-key", "missing key", "missing keys"),
    ("missing-table", "missing table", "missing tables"),
    ("no-segments", "missing final state", "missing final states"),
    ("unknown-id", "reference that leads nowhere", "references that lead nowhere"),
    ("wrong-fact", "chunk whose facts contradict it", "chunks whose facts contradict them"),
    ("unknown-key", "unknown key", "unknown keys"),
    ("unknown-action", "event of an unknown action", "events of unknown actions"),
    ("unknown-chunk", "unknown chunk", "unknown chunks"),
    ("time-order", "event before its predecessor in time", "events before their predecessors in time"),
];

fn find(trace: &Trace, devices: &[DeviceFacts]) -> Vec<Finding> {
    let warnings: Vec<&Warning> =
        trace.warnings.iter().chain(devices.iter().flat_map(|device| device.warnings.iter())).collect();
    let meaning = |warning: &&&Warning| fault(warning.kind);
    let lacks_events = trace.process.lost_events > 0
        || warnings.iter().any(|warning| fault(warning.kind) == Some(Fault::Gap));
    let is_odd = |warning: &&&Warning| match meaning(warning) {
        Some(Fault::Shape | Fault::Impossible) => true,
        Some(Fault::Contradiction) => !lacks_events,
        _ => false,
    };
    let odd: Vec<&Warning> = warnings.iter().filter(is_odd).copied().collect();
    let Some(first) = first(&odd) else { return Vec::new() };
    let sum = |wanted: Fault| {
        let counts = odd.iter().filter(|warning| fault(warning.kind) == Some(wanted));
        counts.fold(0u64, |sum, warning| sum.saturating_add(warning.count))
    };
    let contradictions = sum(Fault::Contradiction);
    let events = trace.event_count() as u64;
    let many = contradictions > 0 && u128::from(contradictions) * 100 >= u128::from(events);
    let severity = if sum(Fault::Impossible) > 0 || many { Severity::Warning } else { Severity::Info };
    let busiest = devices.iter().max_by_key(|device| (device.events, std::cmp::Reverse(device.device)));
    let device = busiest.map(|device| device.device).unwrap_or_default();
    let title = format!("The file holds {}; the first: {}", counted(&odd, contradictions), first.text);
    let mut finding = Finding::new(&RULE, severity, device, 0, title).evidence("events", events);
    for (name, count) in by_kind(&odd) {
        finding = finding.evidence(&name.replace('-', "_"), count);
    }
    let examples: Vec<&str> = odd.iter().map(|warning| warning.text.as_str()).take(EXAMPLES).collect();
    vec![finding.evidence("examples", examples).remedy(remedy(severity, contradictions, &odd))]
}

/// Examples that stand in the evidence.
const EXAMPLES: usize = 8;

/// The warning that says most: the first of the kind that is told first, or the first contradiction.
fn first<'a>(odd: &[&'a Warning]) -> Option<&'a Warning> {
    let of_kind = |kind: &str| odd.iter().find(|warning| warning.kind == kind).copied();
    let named = KINDS.iter().find_map(|&(kind, _, _)| of_kind(kind));
    named.or_else(|| odd.first().copied())
}

/// `5 impossible values, 1 unknown key`. Keys are counted by name, everything else by occurrence.
fn counted(odd: &[&Warning], contradictions: u64) -> String {
    let mut parts = Vec::new();
    let mut told = |count: u64, one: &str, many: &str| match count {
        0 => {}
        1 => parts.push(format!("1 {one}")),
        count => parts.push(format!("{} {many}", Count(count))),
    };
    for (kind, one, many) in KINDS {
        let of_kind = odd.iter().filter(|warning| warning.kind == kind);
        let count = match kind {
            "unknown-key" => of_kind.count() as u64,
            _ => of_kind.fold(0, |sum: u64, warning| sum.saturating_add(warning.count)),
        };
        told(count, one, many);
    }
    told(contradictions, "contradiction between events and state", "contradictions between events and state");
    let known = |warning: &&&Warning| {
        KINDS.iter().all(|&(kind, _, _)| kind != warning.kind) && fault(warning.kind) == Some(Fault::Shape)
    };
    let rest = odd.iter().filter(known).fold(0u64, |sum, warning| sum.saturating_add(warning.count));
    told(rest, "other oddity", "other oddities");
    parts.join(", ")
}

fn by_kind(odd: &[&Warning]) -> Vec<(&'static str, u64)> {
    let mut sums: Vec<(&'static str, u64)> = Vec::new();
    for warning in odd {
        match sums.iter_mut().find(|(kind, _)| *kind == warning.kind) {
            Some((_, count)) => *count = count.saturating_add(warning.count),
            None => sums.push((warning.kind, warning.count)),
        }
    }
    sums
}

fn remedy(severity: Severity, contradictions: u64, odd: &[&Warning]) -> &'static str {
    let newer =
        odd.iter().any(|warning| matches!(warning.kind, "unknown-key" | "unknown-action" | "unknown-chunk"));
    match (severity, newer) {
        (Severity::Warning, _) => {
            "Do not trust totals of this file to the byte. Record again without editing the file; if it comes straight \
             from PyTorch, report it together with the counts here."
        }
        (_, true) if contradictions == 0 => {
            "Unknown keys and actions were left out and change no figure. A newer memlab may know them."
        }
        _ => "What was odd was left out or brought into range; nothing need be done.",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    /// A trace of 200 events and one device, with these warnings of reading and of rebuilding.
    fn rule(reading: &[(&'static str, &str, u64)], rebuilding: &[(&'static str, u64)]) -> Vec<Finding> {
        let mut builder = TraceBuilder::new();
        for _ in 0..100 {
            builder = builder.free(512, 512);
        }
        let mut trace = builder.build();
        for &(kind, subject, count) in reading {
            trace.warnings.add_about(kind, subject, count, || format!("{kind} of {subject}"));
        }
        let mut facts = DeviceFacts { events: 200, ..DeviceFacts::default() };
        for &(kind, count) in rebuilding {
            facts.warnings.add_many(kind, count, || format!("{kind} was met"));
        }
        find(&trace, &[facts])
    }

    #[test]
    fn a_sound_file_is_not_odd() {
        assert!(rule(&[], &[]).is_empty());
        assert!(
            rule(&[("host-memory", "", 3), ("ring-overflowed", "", 1), ("truncated", "", 1)], &[]).is_empty()
        );
    }

    #[test]
    fn unknown_keys_are_worth_knowing_and_counted_by_name() {
        let found = rule(&[("unknown-key", "vendor", 500), ("unknown-key", "other", 1)], &[]);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Info));
        assert_eq!(found[0].title, "The file holds 2 unknown keys; the first: unknown-key of other");
        assert_eq!(found[0].evidence["unknown_key"], 501);
    }

    #[test]
    fn impossible_values_are_a_warning_and_come_first() {
        let found =
            rule(&[("unknown-key", "vendor", 5), ("impossible-value", "size", 1)], &[("end-differs", 1)]);
        assert_eq!(found[0].severity, Severity::Warning);
        assert_eq!(
            found[0].title,
            "The file holds 1 impossible value, 1 unknown key, 1 contradiction between events and state; \
             the first: impossible-value of size"
        );
    }

    #[test]
    fn contradictions_weigh_by_their_share_of_the_events() {
        assert_eq!(rule(&[], &[("unexpected-address", 1)])[0].severity, Severity::Info);
        assert_eq!(rule(&[], &[("unexpected-address", 2)])[0].severity, Severity::Warning);
    }

    #[test]
    fn contradictions_of_a_file_with_gaps_are_not_told_here() {
        assert!(rule(&[("damaged-chunk", "", 1)], &[("end-differs", 50)]).is_empty());
        assert!(rule(&[], &[("lost-free", 1), ("end-differs", 50)]).is_empty());
    }
}
