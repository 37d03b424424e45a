//! Events, frames and stacks at one go.
//!
//! Nearly all of a snapshot is the same few shapes, written by the same pickler: an event dict, in it a
//! list of frames, in it frame dicts. Here they are read straight into columns and tables, without
//! containers. Anything that deviates in the least gives `None`; the machine then goes back to the start of
//! the object and reads it the general way, so a shortcut is never needed for a right result.

use crate::import::graph::{Value, View, Word, text_at};
use crate::import::rows::Row;
use crate::model::{Action, FrameId, PoolId, StackId, StringId};

use super::machine::Machine;
use super::opcodes as op;

impl Machine<'_, '_> {
    /// Runs `shortcut`; when it gives up, nothing has happened.
    #[inline]
    pub(super) fn attempt(&mut self, shortcut: fn(&mut Self) -> Option<Value>) -> Option<Value> {
        let (at, memo) = (self.cursor.at, self.memo.len());
        let value = shortcut(self);
        if value.is_none() {
            self.cursor.at = at;
            self.memo.truncate(memo);
        }
        value
    }

    /// An event or a frame, behind its EMPTY_DICT.
    pub(super) fn dict_at_once(&mut self) -> Option<Value> {
        let slot = self.memo_slot()?;
        self.expect(op::MARK)?;
        let key = self.key()?;
        let value = match key {
            Some(Word::Action) => self.event()?,
            Some(word @ (Word::Name | Word::Filename | Word::Line)) => Value::frame(self.frame(word)?),
            _ => return None,
        };
        self.fill(slot, value);
        Some(value)
    }

    /// A list of frames, behind its EMPTY_LIST. An empty one may be filled later and is left alone.
    pub(super) fn stack_at_once(&mut self) -> Option<Value> {
        let stack = self.stack_list()?;
        (stack != StackId::NONE).then_some(Value::stack(stack))
    }

    fn event(&mut self) -> Option<Value> {
        let opcode = self.opcode()?;
        let action = known_action(self.text(opcode)?.word())?;
        let mut row = Row { action, ..Row::default() };
        let (mut has_address, mut has_size) = (false, false);
        while let Some(key) = self.key()? {
            match key {
                Word::Addr if action != Action::Oom => {
                    row.address = self.unsigned()?;
                    has_address = true;
                }
                Word::DeviceFree if action == Action::Oom => {
                    row.address = self.unsigned()?;
                    has_address = true;
                }
                Word::Size => {
                    row.size = self.unsigned()?;
                    has_size = true;
                }
                Word::Stream => row.stream = self.unsigned()?,
                Word::TimeUs => row.time_us = i64::try_from(self.unsigned()?).ok()?,
                Word::Frames => row.stack = self.stack()?,
                Word::CompileContext => row.compile_context = self.string(true)?,
                Word::UserMetadata => row.user_metadata = self.string(false)?,
                Word::InternalMetadata => row.internal_metadata = self.string(false)?,
                Word::PoolId => row.pool = self.pool()?,
                _ => return None,
            }
        }
        if !has_address || !has_size {
            return None;
        }
        let index = self.rows.push_charged(&row, self.cursor.at).ok()?;
        Some(Value::events(index, 1))
    }

    /// The rest of a frame dict, behind its first key.
    fn frame(&mut self, first: Word) -> Option<FrameId> {
        let (mut name, mut file, mut line) = (None, None, None);
        let mut key = Some(first);
        while let Some(word) = key {
            match word {
                Word::Line => line = Some(self.unsigned()?),
                Word::Name | Word::Filename => {
                    let opcode = self.opcode()?;
                    let View::FileText(offset) = self.text(opcode)?.view() else { return None };
                    *(if word == Word::Name { &mut name } else { &mut file }) = Some(offset);
                }
                _ => return None,
            }
            key = self.key()?;
        }
        let bytes = self.cursor.bytes;
        let name = String::from_utf8_lossy(text_at(bytes, name?));
        let file = String::from_utf8_lossy(text_at(bytes, file?));
        Some(self.rows.frame(&name, &file, line?))
    }

    /// A frame inside a list, whose opcode was read.
    #[inline]
    fn frame_item(&mut self, opcode: u8) -> Option<FrameId> {
        if opcode != op::EMPTY_DICT {
            return self.recall(opcode)?.as_frame();
        }
        let slot = self.memo_slot()?;
        self.expect(op::MARK)?;
        let first = self.key()??;
        let frame = self.frame(first)?;
        self.fill(slot, Value::frame(frame));
        Some(frame)
    }

    /// The value of an event's `frames`.
    #[inline]
    fn stack(&mut self) -> Option<StackId> {
        let known = match self.recall_next() {
            Some(known) => known,
            None => match self.opcode()? {
                op::EMPTY_LIST => return self.stack_list(),
                opcode => self.recall(opcode)?,
            },
        };
        known.as_stack().or_else(|| self.empty_stack(known))
    }

    /// A list from elsewhere that is empty: nothing was recorded there either.
    #[cold]
    fn empty_stack(&mut self, known: Value) -> Option<StackId> {
        let View::List(node) = known.view() else { return None };
        if !self.graph.items(node).is_empty() {
            return None;
        }
        self.taken_empty.insert(node.0);
        Some(StackId::NONE)
    }

    /// A list of frames behind its EMPTY_LIST; the empty stack for an empty list.
    fn stack_list(&mut self) -> Option<StackId> {
        let slot = self.memo_slot()?;
        let mut frames = std::mem::take(&mut self.scratch);
        frames.clear();
        let complete = self.list_items(&mut frames);
        let stack = complete.map(|()| self.rows.stack(&frames));
        self.scratch = frames;
        let stack = stack?;
        self.fill(slot, Value::stack(stack));
        Some(stack)
    }

    fn list_items(&mut self, frames: &mut Vec<FrameId>) -> Option<()> {
        let before = self.cursor.at;
        match self.opcode()? {
            op::MARK => self.batches(frames),
            op::SETITEMS => {
                self.cursor.at = before;
                Some(())
            }
            opcode => {
                if self.recall(opcode).is_some_and(Value::is_text) || opcode == op::SHORT_BINUNICODE {
                    // The next key: the list is empty.
                    self.cursor.at = before;
                    return Some(());
                }
                let frame = self.frame_item(opcode)?;
                frames.push(frame);
                self.expect(op::APPEND)
            }
        }
    }

    /// `frame... APPENDS`, again and again: picklers write a thousand items at a time.
    fn batches(&mut self, frames: &mut Vec<FrameId>) -> Option<()> {
        loop {
            loop {
                if let Some(known) = self.recall_next() {
                    frames.push(known.as_frame()?);
                    continue;
                }
                let opcode = self.opcode()?;
                if opcode == op::APPENDS {
                    break;
                }
                let frame = self.frame_item(opcode)?;
                frames.push(frame);
            }
            let before = self.cursor.at;
            if self.opcode()? != op::MARK {
                self.cursor.at = before;
                return Some(());
            }
        }
    }

    fn pool(&mut self) -> Option<u32> {
        let opcode = self.opcode()?;
        let pair = if let Some(known) = self.recall(opcode) {
            known
        } else {
            let a = i64::try_from(self.unsigned_of(opcode)?).ok()?;
            let b = i64::try_from(self.unsigned()?).ok()?;
            self.expect(op::TUPLE2)?;
            let pair = Value::pair(a, b)?;
            let slot = self.memo_slot()?;
            self.fill(slot, pair);
            pair
        };
        let View::Pair(a, b) = pair.view() else { return None };
        Some(self.rows.pool_index(PoolId(u64::from(a), u64::from(b))))
    }

    /// A text of an event, by number. `context`: PyTorch's "N/A" stands for none.
    fn string(&mut self, context: bool) -> Option<StringId> {
        let value = match self.recall_next() {
            Some(known) if known.is_text() => known,
            Some(_) => return None,
            None => {
                let opcode = self.opcode()?;
                self.text(opcode)?
            }
        };
        if context && value.word() == Word::NotApplicable {
            return Some(StringId(0));
        }
        if value == self.last_text.0 {
            return Some(self.last_text.1);
        }
        let View::FileText(offset) = value.view() else { return None };
        let content = text_at(self.cursor.bytes, offset);
        let same = self.rows.trace.strings.get(self.last_text.1).as_bytes() == content;
        let id = if same { self.last_text.1 } else { self.rows.string(content) };
        self.last_text = (value, id);
        Some(id)
    }
}

/// The action that a word names.
pub(in crate::import) fn known_action(word: Word) -> Option<Action> {
    Some(match word {
        Word::Alloc => Action::Alloc,
        Word::FreeRequested => Action::FreeRequested,
        Word::FreeCompleted => Action::FreeCompleted,
        Word::SegmentAlloc => Action::SegmentAlloc,
        Word::SegmentFree => Action::SegmentFree,
        Word::SegmentMap => Action::SegmentMap,
        Word::SegmentUnmap => Action::SegmentUnmap,
        Word::Snapshot => Action::Snapshot,
        Word::Oom => Action::Oom,
        Word::Annotate => Action::Annotate,
        _ => return None,
    })
}
