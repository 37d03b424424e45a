//! What a rule says when it fires.
//!
//! Owns the shape of a finding and the order in which findings are told. Who fires and why is in `rules`.

use serde_json::{Map, Value};

use crate::model::DeviceId;

use super::{Rule, SettingHelp};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Memory ran out, or certainly leaks.
    Error,
    /// Memory is wasted or endangered.
    Warning,
    /// Worth knowing; nothing need be done.
    Info,
}

impl Severity {
    /// Name in the JSON contract.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

/// A line of the user's code, and how many bytes of the finding are its.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineBytes {
    /// File as recorded.
    pub file: String,
    /// Line number; 0 when the recording does not know it.
    pub line: u64,
    /// Function.
    pub function: String,
    /// Bytes.
    pub bytes: u64,
}

impl LineBytes {
    /// How people read it: `train.py:100 step`.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{}:{} {}", self.file, self.line, self.function)
    }
}

/// A rule that fired, with its proof.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// How much it matters.
    pub severity: Severity,
    /// One sentence without a full stop.
    pub title: String,
    /// Bytes concerned.
    pub bytes: u64,
    /// Device concerned.
    pub device: DeviceId,
    /// Lines concerned, most bytes first.
    pub lines: Vec<LineBytes>,
    /// The figures that prove it, by name. Sizes are exact bytes and their names end in `_bytes`; numbers of events of
    /// the device are called `event` or end in `_event`, lists of them are `burst_events`.
    pub evidence: Map<String, Value>,
    /// What to do: whole sentences.
    pub remedy: String,
}

impl Finding {
    /// A finding of `rule` about `bytes` of `device`; `title` is one sentence without a full stop.
    #[must_use]
    pub fn new(
        rule: &'static Rule,
        severity: Severity,
        device: DeviceId,
        bytes: u64,
        title: impl Into<String>,
    ) -> Self {
        Self {
            rule,
            severity,
            title: title.into(),
            bytes,
            device,
            lines: Vec::new(),
            evidence: Map::new(),
            remedy: String::new(),
        }
    }

    /// Names the lines, most bytes first; only the first few are kept.
    #[must_use]
    pub fn lines(mut self, lines: Vec<LineBytes>) -> Self {
        const MOST: usize = 5;
        self.lines = lines;
        self.lines.truncate(MOST);
        self
    }

    /// Adds a figure.
    #[must_use]
    pub fn evidence(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.evidence.insert(name.to_owned(), value.into());
        self
    }

    /// Numbers events as the recording does, of which this was found in an excerpt that begins with event `first`.
    #[must_use]
    pub fn numbered_from(mut self, first: u64) -> Self {
        let is_event = |name: &str| name == "event" || name.ends_with("_event");
        let shift = |value: &mut Value| {
            if let Some(event) = value.as_u64() {
                *value = event.saturating_add(first).into();
            }
        };
        for (name, value) in &mut self.evidence {
            match value {
                Value::Array(events) if name == "burst_events" => events.iter_mut().for_each(shift),
                value if is_event(name) => shift(value),
                _ => {}
            }
        }
        self
    }

    /// Adds what a replay of `setting` gave.
    #[must_use]
    pub fn with_setting(self, setting: &SettingHelp) -> Self {
        self.evidence("remedy_conf", setting.conf.clone())
            .evidence("remedy_fits", setting.fits)
            .evidence("remedy_peak_reserved_bytes", setting.peak_reserved_bytes)
            .evidence("remedy_saved_bytes", setting.saved_bytes)
    }

    /// Says what to do.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }
}
