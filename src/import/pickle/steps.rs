//! The steps of the shortcuts: keys, texts, integers and memo slots, each `None` where a shortcut ends.

use crate::import::graph::{Graph, Value, Word};

use super::machine::Machine;
use super::opcodes as op;
use super::text;

/// Opcodes, one at a time; `None` where the shortcut ends.
impl Machine<'_, '_> {
    /// The next opcode that is no FRAME: frames of bytes may begin anywhere.
    #[inline]
    pub(super) fn opcode(&mut self) -> Option<u8> {
        loop {
            let opcode = *self.cursor.bytes.get(self.cursor.at)?;
            self.cursor.at += 1;
            if opcode != op::FRAME {
                return Some(opcode);
            }
            self.cursor.at += 8;
        }
    }

    #[inline]
    pub(super) fn expect(&mut self, wanted: u8) -> Option<()> {
        (self.opcode()? == wanted).then_some(())
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.cursor.bytes.get(self.cursor.at).copied()
    }

    #[inline]
    pub(super) fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, _) = self.cursor.bytes.get(self.cursor.at..)?.split_first_chunk::<N>()?;
        self.cursor.at += N;
        Some(*bytes)
    }

    /// The key of the next pair; the inner `None` for the end of the dict.
    #[inline]
    #[expect(clippy::option_option, reason = "the outer one ends the shortcut, the inner one the dict")]
    pub(super) fn key(&mut self) -> Option<Option<Word>> {
        if let Some(known) = self.recall_next() {
            return known.is_text().then(|| Some(known.word()));
        }
        let opcode = self.opcode()?;
        if opcode == op::SETITEMS {
            return Some(None);
        }
        Some(Some(self.text(opcode)?.word()))
    }

    /// What the next opcode names, if it is a BINGET or LONG_BINGET: the common case of keys and frames.
    #[inline]
    pub(super) fn recall_next(&mut self) -> Option<Value> {
        let (index, width) = match *self.cursor.bytes.get(self.cursor.at..)? {
            [op::BINGET, index, ..] => (usize::from(index), 2),
            [op::LONG_BINGET, a, b, c, d, ..] => (u32::from_le_bytes([a, b, c, d]) as usize, 5),
            _ => return None,
        };
        self.cursor.at += width;
        Some(self.memo.get(index).copied().unwrap_or(Value::UNSET))
    }

    /// What a BINGET or LONG_BINGET names.
    #[inline]
    pub(super) fn recall(&mut self, opcode: u8) -> Option<Value> {
        let index = match opcode {
            op::BINGET => usize::from(self.bytes::<1>()?[0]),
            op::LONG_BINGET => u32::from_le_bytes(self.bytes()?) as usize,
            _ => return None,
        };
        self.memo.get(index).copied()
    }

    /// A text whose opcode was read: from the memo, or new.
    #[inline]
    pub(super) fn text(&mut self, opcode: u8) -> Option<Value> {
        if let Some(known) = self.recall(opcode) {
            return known.is_text().then_some(known);
        }
        let offset = self.cursor.at - 1;
        let width = match opcode {
            op::SHORT_BINUNICODE => 1,
            op::BINUNICODE => 4,
            _ => return None,
        };
        let content = self.cursor.counted(width).ok()?;
        let value = Graph::file_text(offset, content);
        let slot = self.memo_slot()?;
        self.fill(slot, value);
        Some(value)
    }

    /// An integer that is not negative.
    #[inline]
    pub(super) fn unsigned(&mut self) -> Option<u64> {
        let opcode = self.opcode()?;
        self.unsigned_of(opcode)
    }

    #[inline]
    pub(super) fn unsigned_of(&mut self, opcode: u8) -> Option<u64> {
        match opcode {
            op::LONG1 => self.long(),
            op::BININT1 => Some(u64::from(self.bytes::<1>()?[0])),
            op::BININT2 => Some(u64::from(u16::from_le_bytes(self.bytes()?))),
            op::BININT => u64::try_from(i32::from_le_bytes(self.bytes()?)).ok(),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn long(&mut self) -> Option<u64> {
        let count = usize::from(self.bytes::<1>()?[0]);
        let rest = self.cursor.bytes.get(self.cursor.at..)?;
        self.cursor.at += count;
        if let (1..=8, Some((wide, _))) = (count, rest.split_first_chunk::<8>()) {
            let value = u64::from_le_bytes(*wide) & (u64::MAX >> (64 - 8 * count));
            return (value >> (8 * count - 1) == 0).then_some(value);
        }
        u64::try_from(text::long(rest.get(..count)?)).ok()
    }

    /// Whether the object just begun is remembered, and under which number: the outer `None` where it is
    /// numbered out of order.
    #[inline]
    #[expect(clippy::option_option, reason = "the outer one ends the shortcut")]
    pub(super) fn memo_slot(&mut self) -> Option<Option<usize>> {
        let slot = self.memo.len();
        match self.peek()? {
            op::MEMOIZE => self.cursor.at += 1,
            code @ (op::BINPUT | op::LONG_BINPUT) => {
                self.cursor.at += 1;
                let index = if code == op::BINPUT {
                    usize::from(self.bytes::<1>()?[0])
                } else {
                    u32::from_le_bytes(self.bytes()?) as usize
                };
                if index != slot {
                    return None;
                }
            }
            _ => return Some(None),
        }
        self.memoize(Value::UNSET, self.cursor.at).ok()?;
        Some(Some(slot))
    }

    #[inline]
    pub(super) fn fill(&mut self, slot: Option<usize>, value: Value) {
        if let Some(slot) = slot {
            self.memo[slot] = value;
        }
    }
}
