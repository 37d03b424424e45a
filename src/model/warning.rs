//! Faults inside a trace, as data: counted by kind, shown in every report.

use std::collections::BTreeMap;

/// One kind of fault with its count and a sentence for the reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Stable name, for example `unknown-key`.
    pub kind: &'static str,
    /// How often.
    pub count: u64,
    /// What it means, with the first example.
    pub text: String,
}

/// Collects warnings: the first of a kind keeps its text, later ones are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Warnings {
    by_kind: BTreeMap<(&'static str, String), Warning>,
}

impl Warnings {
    /// Counts a fault of `kind`; the first one's `text` is kept.
    pub fn add(&mut self, kind: &'static str, text: impl FnOnce() -> String) {
        self.add_many(kind, 1, text);
    }

    /// Counts `count` faults of `kind` at once; none is no warning.
    pub fn add_many(&mut self, kind: &'static str, count: u64, text: impl FnOnce() -> String) {
        self.add_about(kind, "", count, text);
    }

    /// As [`Warnings::add_many`], but counted apart for every `subject` (a key, a device).
    pub fn add_about(
        &mut self,
        kind: &'static str,
        subject: &str,
        count: u64,
        text: impl FnOnce() -> String,
    ) {
        if count == 0 {
            return;
        }
        self.by_kind
            .entry((kind, subject.to_owned()))
            .and_modify(|known| known.count += count)
            .or_insert_with(|| Warning { kind, count, text: text() });
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: Self) {
        for ((kind, subject), warning) in other.by_kind {
            self.add_about(kind, &subject, warning.count, || warning.text);
        }
    }

    /// All warnings, by kind and subject.
    pub fn iter(&self) -> impl Iterator<Item = &Warning> {
        self.by_kind.values()
    }

    /// How often `kind` occurred, over all subjects.
    #[must_use]
    pub fn count(&self, kind: &str) -> u64 {
        self.iter().filter(|warning| warning.kind == kind).map(|warning| warning.count).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_kind.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_text_is_kept_and_the_rest_counted() {
        let mut warnings = Warnings::default();
        warnings.add("unknown-key", || "key `a`".to_owned());
        warnings.add("unknown-key", || "key `b`".to_owned());
        warnings.add_many("lost", 0, || unreachable!("nothing happened"));
        let all: Vec<_> = warnings.iter().collect();
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].count, all[0].text.as_str()), (2, "key `a`"));
    }
}
