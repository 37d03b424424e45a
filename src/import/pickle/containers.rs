//! The machine's memo and containers.

use crate::error::{Error, Result};
use crate::import::graph::{Value, View};

use super::machine::Machine;
use super::opcodes as op;

/// The memo.
impl Machine<'_, '_> {
    #[inline]
    pub(super) fn get(&mut self, index: usize, at: usize) -> Result<()> {
        match self.memo.get(index) {
            Some(&value) if value != Value::UNSET => self.push(value, at),
            _ => Err(Error::corrupt(at, format_args!("memo entry {index} was never written"))),
        }
    }

    #[inline]
    pub(super) fn put(&mut self, index: usize, at: usize) -> Result<()> {
        let top = self.stack.last().copied().ok_or_else(|| underflow(at))?;
        if index == self.memo.len() {
            return self.memoize(top, at);
        }
        self.put_at(index, top, at)
    }

    #[inline]
    pub(super) fn memoize(&mut self, value: Value, at: usize) -> Result<()> {
        if self.memo.len() == self.memo.capacity() {
            self.graph.ledger.charge(self.memo.len() * size_of::<Value>(), at)?;
        }
        self.memo.push(value);
        Ok(())
    }

    #[cold]
    fn put_at(&mut self, index: usize, value: Value, at: usize) -> Result<()> {
        let limit = self.cursor.bytes.len();
        if index >= limit {
            // Pickles number their entries one by one, and an entry takes at least a byte of the file.
            let what = "memo index";
            return Err(Error::LimitExceeded {
                what,
                value: index as u64,
                limit: limit as u64,
                offset: at as u64,
            });
        }
        if index >= self.memo.len() {
            let grown = index + 1 - self.memo.len();
            self.graph.ledger.charge(grown * size_of::<Value>(), at)?;
            self.memo.resize(index + 1, Value::UNSET);
        }
        self.memo[index] = value;
        Ok(())
    }
}

/// Containers.
impl Machine<'_, '_> {
    pub(super) fn empty_dict(&mut self, at: usize) -> Result<()> {
        if self.shortcuts
            && let Some(value) = self.attempt(Self::dict_at_once)
        {
            return self.push(value, at);
        }
        let dict = self.graph.dict(Vec::new(), at)?;
        self.push(dict, at)
    }

    pub(super) fn empty_list(&mut self, at: usize) -> Result<()> {
        if self.shortcuts
            && let Some(value) = self.attempt(Self::stack_at_once)
        {
            return self.push(value, at);
        }
        let list = self.graph.list(Vec::new(), at)?;
        self.push(list, at)
    }

    pub(super) fn small_tuple(&mut self, count: usize, at: usize) -> Result<()> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let start = self.stack.len().checked_sub(count).filter(|&start| start >= floor);
        let start = start.ok_or_else(|| underflow(at))?;
        let tuple = self.graph.tuple(self.stack[start..].to_vec(), at)?;
        self.stack.truncate(start);
        self.push(tuple, at)
    }

    pub(super) fn container_from_mark(&mut self, opcode: u8, at: usize) -> Result<()> {
        let start = self.pop_mark(at)?;
        let items = self.stack[start..].to_vec();
        let value = match opcode {
            op::TUPLE => self.graph.tuple(items, at)?,
            op::LIST => self.graph.list(items, at)?,
            _ if !items.len().is_multiple_of(2) => return Err(odd(at)),
            _ => self.graph.dict(items, at)?,
        };
        self.stack.truncate(start);
        self.push(value, at)
    }

    pub(super) fn extend_from_mark(&mut self, pairs: bool, at: usize) -> Result<()> {
        let start = self.pop_mark(at)?;
        self.extend_from(start, pairs, at)
    }

    pub(super) fn extend_by(&mut self, count: usize, at: usize) -> Result<()> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let start = self.stack.len().checked_sub(count).filter(|&start| start > floor);
        self.extend_from(start.ok_or_else(|| underflow(at))?, count == 2, at)
    }

    /// Moves what lies on the stack from `start` into the container below it.
    pub(super) fn extend_from(&mut self, start: usize, pairs: bool, at: usize) -> Result<()> {
        let floor = self.marks.last().copied().unwrap_or(0);
        if start <= floor {
            return Err(underflow(at));
        }
        let items = &self.stack[start..];
        if pairs && !items.len().is_multiple_of(2) {
            return Err(odd(at));
        }
        match (self.stack[start - 1].view(), pairs) {
            (View::List(node), false) if self.taken_empty.contains(&node.0) => return Err(self.reopen(at)),
            (View::Dict(node), true) | (View::List(node), false) => self.graph.extend(node, items, at)?,
            (View::Frame(_) | View::Events { .. }, true) | (View::Stack(_), false) => {
                return Err(self.reopen(at));
            }
            _ => return Err(Error::corrupt(at, "items for something that holds none")),
        }
        self.stack.truncate(start);
        Ok(())
    }

    /// A shortcut took something for complete that goes on.
    #[cold]
    fn reopen(&mut self, at: usize) -> Error {
        self.reopened = true;
        Error::corrupt(at, "items for something that was complete")
    }
}

pub(super) fn underflow(at: usize) -> Error {
    Error::corrupt(at, "a value that is not there")
}

fn odd(at: usize) -> Error {
    Error::corrupt(at, "a key without its value")
}
