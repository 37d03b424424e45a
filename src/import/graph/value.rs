//! One value in 64 bits: a kind and a payload.
//!
//! The reader's stack, its memo and every container hold these, so a memo entry costs eight bytes and a
//! small integer costs no allocation.

use crate::model::{FrameId, StackId};

use super::Word;

/// A container in the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::import) struct NodeId(pub u32);

/// A packed value; [`Value::view`] unpacks it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(in crate::import) struct Value(u64);

/// A value as one looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::import) enum View {
    /// No value: a memo slot that was never written.
    Unset,
    /// Python's `None`.
    None,
    /// True or false.
    Bool(bool),
    /// An integer of up to 60 bits.
    Int(i64),
    /// Index of a larger integer in the graph.
    BigInt(usize),
    /// Index of a number in the graph.
    Float(usize),
    /// A text inside the file: offset of the opcode that holds it.
    FileText(usize),
    /// Index of a decoded text in the graph.
    TableText(u32),
    /// A list.
    List(NodeId),
    /// A dict.
    Dict(NodeId),
    /// A tuple.
    Tuple(NodeId),
    /// A tuple of two small integers, such as a pool id.
    Pair(u32, u32),
    /// A dict that is a frame, already in the frame table.
    Frame(FrameId),
    /// A list of frames, already in the stack table.
    Stack(StackId),
    /// Consecutive event rows: dicts that are events, already in columns.
    Events {
        /// First row.
        first: u32,
        /// Number of rows.
        count: u32,
    },
}

const UNSET: u64 = 0;
const NONE: u64 = 1;
const BOOL: u64 = 2;
const INT: u64 = 3;
const BIG_INT: u64 = 4;
const FLOAT: u64 = 5;
const FILE_TEXT: u64 = 6;
const TABLE_TEXT: u64 = 7;
const LIST: u64 = 8;
const DICT: u64 = 9;
const TUPLE: u64 = 10;
const PAIR: u64 = 11;
const FRAME: u64 = 12;
const STACK: u64 = 13;
const EVENTS: u64 = 14;

const KIND_BITS: u32 = 4;
const WORD_BITS: u32 = 8;
const PAIR_BITS: u32 = 30;
/// Longest run of events in one value.
pub(in crate::import) const RUN_MAX: u32 = (1 << 28) - 1;

impl Value {
    pub(in crate::import) const UNSET: Self = Self(UNSET);
    pub(in crate::import) const NONE: Self = Self(NONE);

    const fn pack(kind: u64, payload: u64) -> Self {
        Self(payload << KIND_BITS | kind)
    }

    pub(in crate::import) const fn bool(value: bool) -> Self {
        Self::pack(BOOL, value as u64)
    }

    /// An integer, when it fits into 60 bits.
    #[inline]
    pub(in crate::import) const fn small_int(value: i64) -> Option<Self> {
        if (value << KIND_BITS) >> KIND_BITS == value {
            return Some(Self::pack(INT, value.cast_unsigned()));
        }
        None
    }

    pub(super) const fn big_int(index: usize) -> Self {
        Self::pack(BIG_INT, index as u64)
    }

    pub(super) const fn float(index: usize) -> Self {
        Self::pack(FLOAT, index as u64)
    }

    #[inline]
    pub(super) const fn file_text(offset: usize, word: Word) -> Self {
        Self::pack(FILE_TEXT, (offset as u64) << WORD_BITS | word as u64)
    }

    pub(super) const fn table_text(index: u32, word: Word) -> Self {
        Self::pack(TABLE_TEXT, (index as u64) << WORD_BITS | word as u64)
    }

    pub(super) const fn list(node: NodeId) -> Self {
        Self::pack(LIST, node.0 as u64)
    }

    pub(super) const fn dict(node: NodeId) -> Self {
        Self::pack(DICT, node.0 as u64)
    }

    pub(super) const fn tuple(node: NodeId) -> Self {
        Self::pack(TUPLE, node.0 as u64)
    }

    /// A tuple of two integers, when both are small and not negative.
    pub(in crate::import) fn pair(a: i64, b: i64) -> Option<Self> {
        let fits = 0..1 << PAIR_BITS;
        (fits.contains(&a) && fits.contains(&b))
            .then(|| Self::pack(PAIR, (a << PAIR_BITS | b).cast_unsigned()))
    }

    #[inline]
    pub(in crate::import) const fn frame(id: FrameId) -> Self {
        Self::pack(FRAME, id.0 as u64)
    }

    #[inline]
    pub(in crate::import) const fn stack(id: StackId) -> Self {
        Self::pack(STACK, id.0 as u64)
    }

    /// Rows `first..first + count`; `count` is at most [`RUN_MAX`].
    #[inline]
    pub(in crate::import) const fn events(first: u32, count: u32) -> Self {
        Self::pack(EVENTS, (first as u64) << 28 | count as u64)
    }

    /// The frame, if it is one.
    #[inline]
    pub(in crate::import) const fn as_frame(self) -> Option<FrameId> {
        if self.0 & 15 == FRAME {
            return Some(FrameId((self.0 >> KIND_BITS) as u32));
        }
        None
    }

    /// The stack, if it is one.
    #[inline]
    pub(in crate::import) const fn as_stack(self) -> Option<StackId> {
        if self.0 & 15 == STACK {
            return Some(StackId((self.0 >> KIND_BITS) as u32));
        }
        None
    }

    /// Whether it is a text.
    #[inline]
    pub(in crate::import) const fn is_text(self) -> bool {
        let kind = self.0 & 15;
        kind == FILE_TEXT || kind == TABLE_TEXT
    }

    /// Which word the text is; [`Word::Other`] for anything else.
    #[inline]
    pub(in crate::import) fn word(self) -> Word {
        if self.is_text() {
            return Word::from_code((self.0 >> KIND_BITS) as u8);
        }
        Word::Other
    }

    /// Unpacks.
    #[inline]
    pub(in crate::import) const fn view(self) -> View {
        let payload = self.0 >> KIND_BITS;
        match self.0 & 15 {
            NONE => View::None,
            BOOL => View::Bool(payload != 0),
            INT => View::Int(self.0.cast_signed() >> KIND_BITS),
            BIG_INT => View::BigInt(payload as usize),
            FLOAT => View::Float(payload as usize),
            FILE_TEXT => View::FileText((payload >> WORD_BITS) as usize),
            TABLE_TEXT => View::TableText((payload >> WORD_BITS) as u32),
            LIST => View::List(NodeId(payload as u32)),
            DICT => View::Dict(NodeId(payload as u32)),
            TUPLE => View::Tuple(NodeId(payload as u32)),
            PAIR => View::Pair((payload >> PAIR_BITS) as u32, (payload & ((1 << PAIR_BITS) - 1)) as u32),
            FRAME => View::Frame(FrameId(payload as u32)),
            STACK => View::Stack(StackId(payload as u32)),
            EVENTS => View::Events { first: (payload >> 28) as u32, count: (payload & 0x0fff_ffff) as u32 },
            _ => View::Unset,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn integers_keep_their_sign_and_large_ones_do_not_fit() {
        for value in [0, 1, -1, (1 << 59) - 1, -(1 << 59)] {
            assert_eq!(Value::small_int(value).unwrap().view(), View::Int(value));
        }
        assert_eq!(Value::small_int(1 << 59), None);
        assert_eq!(Value::small_int(i64::MIN), None);
    }

    #[test]
    fn payloads_survive_packing() {
        assert_eq!(Value::pair(3, (1 << 30) - 1).unwrap().view(), View::Pair(3, (1 << 30) - 1));
        assert_eq!(Value::pair(-1, 0), None);
        let run = Value::events(u32::MAX, RUN_MAX);
        assert_eq!(run.view(), View::Events { first: u32::MAX, count: RUN_MAX });
        let text = Value::file_text(1 << 40, Word::Frames);
        assert_eq!((text.view(), text.word()), (View::FileText(1 << 40), Word::Frames));
        assert_eq!(Value::stack(StackId(7)).as_stack(), Some(StackId(7)));
        assert_eq!(Value::frame(FrameId(7)).as_stack(), None);
        assert_eq!(Value::default().view(), View::Unset);
    }
}
