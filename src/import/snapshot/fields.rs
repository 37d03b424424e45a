//! Values of keys: what they should be, and what is done when they are something else.

use crate::error::Result;
use crate::import::graph::{NodeId, Value, View};
use crate::model::{DeviceId, PoolId};

use super::{Builder, DEVICES_MAX};

/// Distinct unknown keys that get a warning of their own.
const UNKNOWN_KEYS_MAX: usize = 32;

impl Builder<'_> {
    /// Keys and values of a dict, paid by visits.
    pub(super) fn entries(&mut self, node: NodeId) -> Result<Vec<Value>> {
        let entries = self.graph.items(node);
        self.visits.charge(entries.len() + 1, 0)?;
        Ok(entries.to_vec())
    }

    /// How many items a list or tuple has; `None` with a warning when it is neither.
    pub(super) fn list(&mut self, value: Value, what: &str) -> Option<(NodeId, usize)> {
        match value.view() {
            View::List(node) | View::Tuple(node) => Some((node, self.graph.items(node).len())),
            View::None => None,
            _ => {
                self.odd(what, "a list");
                None
            }
        }
    }

    /// Item `index` of a list, paid by a visit.
    pub(super) fn item(&mut self, node: NodeId, index: usize) -> Result<Value> {
        self.visits.charge(1, 0)?;
        Ok(self.graph.items(node).get(index).copied().unwrap_or_default())
    }

    /// Notes a value of the wrong kind.
    #[cold]
    pub(super) fn odd(&mut self, what: &str, wanted: &str) {
        let text = || format!("`{what}` is not {wanted}; it is left out");
        self.rows.trace.warnings.add_about("odd-value", what, 1, text);
    }

    /// Notes a value that cannot be.
    #[cold]
    pub(super) fn impossible(&mut self, what: &str, text: impl FnOnce() -> String) {
        self.rows.trace.warnings.add_about("impossible-value", what, 1, text);
    }

    /// Notes a key that should be there.
    #[cold]
    pub(super) fn missing(&mut self, what: &str, of: &str) {
        let text = || format!("`{what}` is missing from {of}");
        self.rows.trace.warnings.add_about("missing-key", what, 1, text);
    }

    /// Notes a key without a known meaning.
    #[cold]
    pub(super) fn unknown_key(&mut self, key: Value, of: &str) {
        let mut name: String = match self.graph.as_text(key) {
            Some(text) => text.chars().take(80).collect(),
            None => "(not a text)".to_owned(),
        };
        if !self.unknown_keys.contains(&name) {
            if self.unknown_keys.len() < UNKNOWN_KEYS_MAX {
                self.unknown_keys.insert(name.clone());
            } else {
                "(further keys)".clone_into(&mut name);
            }
        }
        let text = || format!("key `{name}` of {of} is not known and left out");
        self.rows.trace.warnings.add_about("unknown-key", &name, 1, text);
    }

    /// A size or count: negative or too large values are brought into range, with a warning.
    pub(super) fn unsigned(&mut self, value: Value, what: &str) -> u64 {
        if let View::Int(value @ 0..) = value.view() {
            return value.cast_unsigned();
        }
        let Some(integer) = self.integer(value, what) else { return 0 };
        if let Ok(value) = u64::try_from(integer) {
            return value;
        }
        self.impossible(what, || format!("`{what}` is {integer}"));
        if integer < 0 { 0 } else { u64::MAX }
    }

    /// A pointer: one that was written as a negative number means its 64 bits.
    pub(super) fn pointer(&mut self, value: Value, what: &str) -> u64 {
        if let View::Int(value @ 0..) = value.view() {
            return value.cast_unsigned();
        }
        let Some(integer) = self.integer(value, what) else { return 0 };
        if let Ok(value) = u64::try_from(integer) {
            return value;
        }
        if let Ok(value) = i64::try_from(integer) {
            return value.cast_unsigned();
        }
        self.impossible(what, || format!("`{what}` is {integer}"));
        if integer < 0 { 0 } else { u64::MAX }
    }

    /// A time: out-of-range values are brought into range, with a warning.
    pub(super) fn time(&mut self, value: Value) -> i64 {
        if let View::None = value.view() {
            return crate::model::NO_TIME;
        }
        let Some(integer) = self.integer(value, "time_us") else { return crate::model::NO_TIME };
        if let Ok(value) = i64::try_from(integer) {
            return value;
        }
        self.impossible("time_us", || format!("`time_us` is {integer}"));
        if integer < 0 { i64::MIN + 1 } else { i64::MAX }
    }

    fn integer(&mut self, value: Value, what: &str) -> Option<i128> {
        if let Some(integer) = self.graph.as_integer(value) {
            return Some(integer);
        }
        if let Some(float) = self.graph.as_float(value).filter(|float| float.is_finite()) {
            return Some(float as i128);
        }
        self.odd(what, "an integer");
        None
    }

    /// A device index; `None` with a warning for one that cannot be.
    pub(super) fn device(&mut self, value: Value) -> Option<DeviceId> {
        let integer = self.integer(value, "device")?;
        if (0..i128::from(DEVICES_MAX)).contains(&integer) {
            return Some(DeviceId(integer as u32));
        }
        self.impossible("device", || {
            format!("device {integer} is out of range; what belongs to it is left out")
        });
        None
    }

    /// A pool id: two integers in a list or tuple.
    pub(super) fn pool(&mut self, value: Value) -> Option<PoolId> {
        if let View::Pair(a, b) = value.view() {
            return Some(PoolId(u64::from(a), u64::from(b)));
        }
        let ids = self.graph.list_items(value).and_then(|items| {
            let &[a, b] = items else { return None };
            let id = |value| self.graph.as_integer(value).and_then(|id| u64::try_from(id).ok());
            Some(PoolId(id(a)?, id(b)?))
        });
        if ids.is_none() && value.view() != View::None {
            self.odd("pool id", "a pair of integers");
        }
        ids
    }

    /// A truth value.
    pub(super) fn truth(&mut self, value: Value, what: &str) -> bool {
        let truth = self.graph.as_integer(value);
        if truth.is_none() {
            self.odd(what, "true or false");
        }
        truth.is_some_and(|value| value != 0)
    }
}
