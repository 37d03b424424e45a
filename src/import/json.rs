//! A snapshot as JSON text, into the same graph as a pickle.

use std::fmt;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};

use crate::error::{Error, Result};

use super::graph::{Graph, Value};

/// Reads JSON `bytes`. Nesting is bounded by the parser, size by the graph's budget.
pub(super) fn read(bytes: &[u8], graph: &mut Graph<'_>) -> Result<Value> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut limit = None;
    let mut parser = serde_json::Deserializer::from_slice(text);
    let read = Node { graph, limit: &mut limit }.deserialize(&mut parser);
    let read = read.and_then(|value| parser.end().map(|()| value));
    read.map_err(|error| {
        limit.unwrap_or_else(|| Error::corrupt(offset(bytes, error.line(), error.column()), message(&error)))
    })
}

/// The parser's words without its line and column.
fn message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

fn offset(bytes: &[u8], line: usize, column: usize) -> usize {
    let before: usize =
        bytes.split_inclusive(|&byte| byte == b'\n').take(line.saturating_sub(1)).map(<[u8]>::len).sum();
    (before + column.saturating_sub(1)).min(bytes.len())
}

/// One value, to be put into the graph.
struct Node<'g, 'a> {
    graph: &'g mut Graph<'a>,
    /// The graph's own error, which the parser's cannot carry.
    limit: &'g mut Option<Error>,
}

impl Node<'_, '_> {
    fn keep<T, E: serde::de::Error>(&mut self, result: Result<T>) -> Result<T, E> {
        result.map_err(|error| {
            let text = error.to_string();
            *self.limit = Some(error);
            E::custom(text)
        })
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_, '_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::NONE)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::bool(value))
    }

    fn visit_i64<E: serde::de::Error>(mut self, value: i64) -> Result<Value, E> {
        let value = self.graph.integer(i128::from(value), 0);
        self.keep(value)
    }

    fn visit_u64<E: serde::de::Error>(mut self, value: u64) -> Result<Value, E> {
        let value = self.graph.integer(i128::from(value), 0);
        self.keep(value)
    }

    fn visit_f64<E: serde::de::Error>(mut self, value: f64) -> Result<Value, E> {
        let value = self.graph.float(value, 0);
        self.keep(value)
    }

    fn visit_str<E: serde::de::Error>(mut self, text: &str) -> Result<Value, E> {
        let value = self.graph.text(text, 0);
        self.keep(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) =
            items.next_element_seed(Node { graph: &mut *self.graph, limit: &mut *self.limit })?
        {
            list.push(item);
        }
        let value = self.graph.list(list, 0);
        self.keep(value)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        let mut dict = Vec::new();
        while let Some(key) =
            entries.next_key_seed(Node { graph: &mut *self.graph, limit: &mut *self.limit })?
        {
            dict.push(key);
            dict.push(entries.next_value_seed(Node { graph: &mut *self.graph, limit: &mut *self.limit })?);
        }
        let value = self.graph.dict(dict, 0);
        self.keep(value)
    }
}
