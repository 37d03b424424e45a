//! What a warning of reading or rebuilding means for the figures.
//!
//! Owns the meaning of every kind of warning that memlab itself gives: whether the file was cut, whether events
//! are missing, or whether the file is merely odd. Kinds that recorders write of themselves are none of these.

use crate::model::Warnings;

/// What a kind of warning means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The file ends before the recording did: what came later is not known.
    Cut,
    /// The oldest events were overwritten: what came before is not known.
    Overwritten,
    /// Events between others are missing: figures after the gap may be too high or too low.
    Gap,
    /// The file has another shape than expected; what was odd was left out or brought into range.
    Shape,
    /// Values that cannot be.
    Impossible,
    /// Events that contradict each other, the final state, or the allocator's rules.
    Contradiction,
}

/// The meaning of warnings called `kind`; `None` for notes that touch no figure.
#[must_use]
pub fn fault(kind: &str) -> Option<Fault> {
    Some(match kind {
        "truncated" | "disk" => Fault::Cut,
        "ring-overflowed" => Fault::Overwritten,
        "missing-events"
        | "missing-chunk"
        | "damaged-chunk"
        | "lost-events"
        | "missing-allocations"
        | "switched-off"
        | "lost-free"
        | "unmatched-free" => Fault::Gap,
        "unknown-key" | "unknown-action" | "unknown-chunk" | "unknown-id" | "missing-key"
        | "missing-table" | "odd-value" | "no-segments" | "time-order" | "trailing-bytes" | "wrong-fact" => {
            Fault::Shape
        }
        "impossible-value" => Fault::Impossible,
        "block-too-small"
        | "end-differs"
        | "segment-overlap"
        | "self-check"
        | "size-mismatch"
        | "unexpected-address"
        | "unknown-segment"
        | "unmatched-segment-free" => Fault::Contradiction,
        _ => return None,
    })
}

/// How often `warnings` have a fault of this meaning.
#[must_use]
pub fn count(warnings: &Warnings, wanted: Fault) -> u64 {
    let counts = warnings.iter().filter(|warning| fault(warning.kind) == Some(wanted));
    counts.fold(0, |sum: u64, warning| sum.saturating_add(warning.count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_counted_by_what_they_mean() {
        let mut warnings = Warnings::default();
        warnings.add_many("lost-events", 7, || "x".to_owned());
        warnings.add_about("lost-free", "0", 2, || "x".to_owned());
        warnings.add("host-memory", || "x".to_owned());
        assert_eq!(count(&warnings, Fault::Gap), 9);
        assert_eq!(count(&warnings, Fault::Cut), 0);
        assert_eq!(fault("host-memory"), None);
    }

    /// A kind that is given anywhere in the crate and has no meaning here would be silently ignored.
    #[test]
    fn every_kind_that_the_crate_gives_is_known_or_a_note() {
        // Those about driver calls touch no figure of the allocator's.
        const NOTES: [&str; 11] = [
            "missing-driver-calls",
            "lost-driver-calls",
            "driver-recorder-fault",
            "driver-file",
            "host-memory",
            "recorder-fault",
            "recorded-warning",
            "reduced",
            "nothing",
            "read-in-pieces",
            "excerpt",
        ];
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut unknown = Vec::new();
        for folder in ["import", "format", "rebuild", "analysis"] {
            kinds_in(&root.join(folder), &mut unknown);
        }
        unknown.retain(|kind| fault(kind).is_none() && !NOTES.contains(&kind.as_str()));
        assert!(unknown.is_empty(), "{unknown:?} mean nothing");
    }

    fn kinds_in(folder: &std::path::Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.contains("test") || name.contains("sample") {
                continue;
            }
            if path.is_dir() {
                kinds_in(&path, found);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for call in [".add(", ".add_many(", ".add_about(", ".fault("] {
                for rest in code.split(call).skip(1) {
                    let rest = rest.trim_start();
                    if let Some(kind) = rest.strip_prefix('"').and_then(|rest| rest.split('"').next()) {
                        found.push(kind.to_owned());
                    }
                }
            }
        }
    }
}
