//! Cuts of the report, so that its blob stays small however much a trace names.
//!
//! Owns how long texts and lists may be. What is cut off is counted beside it (`lines` and `lines_left_out`).

use serde_json::{Map, Value};

use crate::report::escape::{keep_end, keep_start};

/// How much stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Entries of a list.
    pub(super) rows: usize,
    /// Failed requests.
    pub(super) ooms: usize,
    /// Characters of a text.
    pub(super) characters: usize,
}

impl Cut {
    /// As the format says.
    pub(super) const FULL: Self = Self { rows: 2_000, ooms: 200, characters: 400 };

    /// Half of it; `None` when hardly anything would be left.
    pub(super) fn smaller(self) -> Option<Self> {
        let Self { rows, ooms, characters } = self;
        (rows > 4).then(|| Self {
            rows: rows / 2,
            ooms: (ooms / 2).max(4),
            characters: (characters / 2).max(40),
        })
    }

    /// Applies to `value`, which stands under `key`. Reports are ours, so they are as deep as our types.
    pub(super) fn apply(self, key: &str, value: &mut Value) {
        match value {
            Value::String(text) => self.text(key, text),
            Value::Array(entries) => {
                for entry in entries {
                    self.apply(key, entry);
                }
            }
            Value::Object(fields) => {
                self.lists(fields);
                for (key, value) in fields.iter_mut() {
                    self.apply(key, value);
                }
            }
            _ => {}
        }
    }

    fn text(self, key: &str, text: &mut String) {
        let kept = match key {
            "file" | "path" => keep_end(text, self.characters),
            _ => keep_start(text, self.characters),
        };
        if kept.len() != text.len() {
            *text = kept.into_owned();
        }
    }

    fn lists(self, fields: &mut Map<String, Value>) {
        let mut left_out = Vec::new();
        for (key, value) in fields.iter_mut() {
            let Value::Array(entries) = value else { continue };
            let most = if key == "ooms" { self.ooms } else { self.rows };
            if entries.len() > most {
                left_out.push((format!("{key}_left_out"), entries.len() - most));
                if key == "ooms" {
                    // The last ones are those that ended the program.
                    entries.drain(..entries.len() - most);
                } else {
                    entries.truncate(most);
                }
            }
        }
        for (key, count) in left_out {
            let before = fields.get(&key).and_then(Value::as_u64).unwrap_or(0);
            fields.insert(key, (before + count as u64).into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_cut_off_is_counted() {
        let cut = Cut { rows: 2, ooms: 1, characters: 4 };
        let mut value = json!({
            "lines": [{"file": "/a/b.py"}, {"function": "forward"}, {}], "lines_left_out": 5,
            "steps": {"rows": [1, 2, 3, 4]}, "ooms": [{"event": 1}, {"event": 2}], "pools": [1],
        });
        cut.apply("", &mut value);
        assert_eq!(
            value,
            json!({
                "lines": [{"file": "….py"}, {"function": "for…"}], "lines_left_out": 6,
                "steps": {"rows": [1, 2], "rows_left_out": 2}, "ooms": [{"event": 2}], "ooms_left_out": 1,
                "pools": [1],
            })
        );
    }

    #[test]
    fn cuts_end() {
        let mut cut = Some(Cut::FULL);
        let mut steps = 0;
        while let Some(now) = cut {
            (cut, steps) = (now.smaller(), steps + 1);
        }
        assert_eq!(steps, 10);
    }
}
