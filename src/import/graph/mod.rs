//! The objects of a file, as the readers build them and the snapshot code walks them.
//!
//! Owns the arena: containers by number (so that what is shared in the file stays shared, and cycles are
//! harmless), large integers, numbers, decoded texts; and the budget on all of it. Texts of a pickle are
//! not copied: a value holds the offset of their opcode. Knows no pickle but that.

mod ledger;
mod value;
mod words;

use std::borrow::Cow;

use crate::error::Result;
use crate::model::StringTable;

pub(super) use ledger::Ledger;
pub(super) use value::{NodeId, RUN_MAX, Value, View};
pub(super) use words::Word;

/// Bytes that a container costs before it holds anything: its row and the allocator's header.
const NODE_BYTES: usize = size_of::<Vec<Value>>() + 8;

/// The arena.
pub(super) struct Graph<'a> {
    bytes: &'a [u8],
    nodes: Vec<Vec<Value>>,
    integers: Vec<i128>,
    floats: Vec<f64>,
    texts: StringTable,
    /// Budget for everything that grows with the file.
    pub(super) ledger: Ledger,
}

impl<'a> Graph<'a> {
    /// An empty arena over `bytes`.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            nodes: Vec::new(),
            integers: Vec::new(),
            floats: Vec::new(),
            texts: StringTable::default(),
            ledger: Ledger::for_graph(bytes.len()),
        }
    }

    fn node(&mut self, items: Vec<Value>, offset: usize) -> Result<NodeId> {
        self.ledger.charge(NODE_BYTES + items.capacity() * size_of::<Value>(), offset)?;
        let id = u32::try_from(self.nodes.len()).expect("the budget allows fewer than 2^32 containers");
        self.nodes.push(items);
        Ok(NodeId(id))
    }

    /// A new list.
    pub(super) fn list(&mut self, items: Vec<Value>, offset: usize) -> Result<Value> {
        Ok(Value::list(self.node(items, offset)?))
    }

    /// A new tuple.
    pub(super) fn tuple(&mut self, items: Vec<Value>, offset: usize) -> Result<Value> {
        if let [a, b] = items[..]
            && let (View::Int(a), View::Int(b)) = (a.view(), b.view())
            && let Some(pair) = Value::pair(a, b)
        {
            return Ok(pair);
        }
        Ok(Value::tuple(self.node(items, offset)?))
    }

    /// A new dict: keys and values in turn.
    pub(super) fn dict(&mut self, entries: Vec<Value>, offset: usize) -> Result<Value> {
        Ok(Value::dict(self.node(entries, offset)?))
    }

    /// An integer of any size.
    pub(super) fn integer(&mut self, value: i128, offset: usize) -> Result<Value> {
        if let Some(small) = i64::try_from(value).ok().and_then(Value::small_int) {
            return Ok(small);
        }
        self.ledger.charge(size_of::<i128>(), offset)?;
        self.integers.push(value);
        Ok(Value::big_int(self.integers.len() - 1))
    }

    /// A number.
    pub(super) fn float(&mut self, value: f64, offset: usize) -> Result<Value> {
        self.ledger.charge(size_of::<f64>(), offset)?;
        self.floats.push(value);
        Ok(Value::float(self.floats.len() - 1))
    }

    /// A text that is not in the file as it stands.
    pub(super) fn text(&mut self, text: &str, offset: usize) -> Result<Value> {
        let known = self.texts.len();
        let id = self.texts.intern(text);
        if self.texts.len() > known {
            self.ledger.charge(text.len() + 16, offset)?;
        }
        Ok(Value::table_text(id.0, Word::from_bytes(text.as_bytes())))
    }

    /// A text of the file: `content`, held by the opcode at `offset`.
    #[inline]
    pub(super) fn file_text(offset: usize, content: &[u8]) -> Value {
        Value::file_text(offset, Word::from_bytes(content))
    }

    /// Appends to list or dict `node`. Events that follow each other become one value.
    pub(super) fn extend(&mut self, node: NodeId, items: &[Value], offset: usize) -> Result<()> {
        let target = &mut self.nodes[node.0 as usize];
        let before = target.capacity();
        if target.is_empty() {
            // Most containers are filled at one go; events will join.
            let runs = items.iter().filter(|item| matches!(item.view(), View::Events { .. })).count();
            target.reserve_exact((items.len() - runs).max(1));
        }
        for &item in items {
            if let View::Events { first, count } = item.view()
                && let Some(last) = target.last_mut()
                && let Some(joined) = join_runs(*last, first, count)
            {
                *last = joined;
            } else {
                target.push(item);
            }
        }
        let grown = target.capacity() - before;
        self.ledger.charge(grown * size_of::<Value>(), offset)
    }

    /// Replaces the content of `node`: a conversion that need not be done twice.
    pub(super) fn replace(&mut self, node: NodeId, item: Value) {
        let target = &mut self.nodes[node.0 as usize];
        target.clear();
        target.push(item);
    }

    /// What container `node` holds: items, or keys and values in turn.
    pub(super) fn items(&self, node: NodeId) -> &[Value] {
        self.nodes.get(node.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// The items of a list or tuple; a pair's are not stored and thus not given.
    pub(super) fn list_items(&self, value: Value) -> Option<&[Value]> {
        match value.view() {
            View::List(node) | View::Tuple(node) => Some(self.items(node)),
            _ => None,
        }
    }

    /// The value as text: UTF-8, replaced where it is not.
    pub(super) fn as_text(&self, value: Value) -> Option<Cow<'_, str>> {
        match value.view() {
            View::TableText(id) => Some(Cow::Borrowed(self.texts.get(crate::model::StringId(id)))),
            View::FileText(offset) => Some(String::from_utf8_lossy(text_at(self.bytes, offset))),
            _ => None,
        }
    }

    /// The value as an integer; booleans count as 0 and 1, as in Python.
    pub(super) fn as_integer(&self, value: Value) -> Option<i128> {
        match value.view() {
            View::Int(value) => Some(i128::from(value)),
            View::BigInt(index) => self.integers.get(index).copied(),
            View::Bool(value) => Some(i128::from(value)),
            _ => None,
        }
    }

    /// The value as a number.
    pub(super) fn as_float(&self, value: Value) -> Option<f64> {
        match value.view() {
            View::Float(index) => self.floats.get(index).copied(),
            _ => None,
        }
    }
}

fn join_runs(last: Value, first: u32, count: u32) -> Option<Value> {
    let View::Events { first: start, count: length } = last.view() else { return None };
    let joined = length.checked_add(count).filter(|&sum| sum <= RUN_MAX)?;
    (u64::from(start) + u64::from(length) == u64::from(first)).then(|| Value::events(start, joined))
}

/// The content of the text opcode at `offset`; empty when there is none.
pub(super) fn text_at(bytes: &[u8], offset: usize) -> &[u8] {
    let Some((&opcode, rest)) = bytes.get(offset..).and_then(<[u8]>::split_first) else { return &[] };
    let width = match opcode {
        0x8c | b'U' | b'C' => 1,
        b'X' | b'T' | b'B' => 4,
        0x8d | 0x8e | 0x96 => 8,
        _ => return &[],
    };
    let Some((length, rest)) = rest.split_at_checked(width) else { return &[] };
    let mut wide = [0; 8];
    wide[..width].copy_from_slice(length);
    let length = usize::try_from(u64::from_le_bytes(wide)).unwrap_or(usize::MAX);
    rest.get(..length).unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn events_that_follow_each_other_are_one_value() {
        let mut graph = Graph::new(&[]);
        let list = graph.list(Vec::new(), 0).unwrap();
        let View::List(node) = list.view() else { unreachable!() };
        graph.extend(node, &[Value::events(0, 1), Value::events(1, 1)], 0).unwrap();
        graph.extend(node, &[Value::events(2, 1), Value::events(7, 1)], 0).unwrap();
        assert_eq!(graph.items(node), [Value::events(0, 3), Value::events(7, 1)]);
    }

    #[test]
    fn integers_beyond_60_bits_are_kept() {
        let mut graph = Graph::new(&[]);
        for value in [0, -1, i128::from(u64::MAX), i128::MIN, 1 << 59] {
            let packed = graph.integer(value, 0).unwrap();
            assert_eq!(graph.as_integer(packed), Some(value));
        }
    }

    #[test]
    fn texts_are_read_from_their_opcode() {
        let bytes = b"\x8c\x03abcX\x02\0\0\0hi";
        assert_eq!(text_at(bytes, 0), b"abc");
        assert_eq!(text_at(bytes, 5), b"hi");
        assert_eq!(text_at(bytes, 1), b"");
        assert_eq!(text_at(b"X\xff\xff\xff\xff", 0), b"");
    }

    #[test]
    fn containers_run_out_of_budget_before_memory() {
        let mut graph = Graph::new(&[]);
        let stopped = (0..10_000_000).find_map(|offset| graph.list(Vec::new(), offset).err());
        assert!(matches!(stopped, Some(crate::error::Error::LimitExceeded { .. })));
    }
}
