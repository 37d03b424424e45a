//! Parts that many objects of a snapshot have: keys, integers, lists, and what is written once and shared.

use std::io;

use crate::model::{FrameId, NO_TIME, PoolId, StackId, StringId};

use super::snapshot::Writer;

/// Lists are written in batches, as Python's pickler does: a reader's stack stays small.
const BATCH: usize = 1000;

impl Writer<'_, '_> {
    pub(super) fn open(&mut self) -> io::Result<()> {
        self.pickler.spill()?;
        self.pickler.empty_dict();
        self.pickler.mark();
        Ok(())
    }

    pub(super) fn list<T>(
        &mut self,
        items: &[T],
        mut write: impl FnMut(&mut Self, &T) -> io::Result<()>,
    ) -> io::Result<()> {
        self.pickler.empty_list();
        for batch in items.chunks(BATCH) {
            self.pickler.mark();
            for item in batch {
                write(self, item)?;
            }
            self.pickler.appends();
        }
        Ok(())
    }

    /// A key or a fixed value.
    pub(super) fn key(&mut self, word: &'static str) -> io::Result<()> {
        if let Some(&memo) = self.words.get(word) {
            self.pickler.get(memo);
            return Ok(());
        }
        self.pickler.text(word)?;
        let memo = self.pickler.memoize();
        self.words.insert(word, memo);
        Ok(())
    }

    pub(super) fn int(&mut self, key: &'static str, value: u64) -> io::Result<()> {
        self.key(key)?;
        self.pickler.int(i128::from(value));
        Ok(())
    }

    pub(super) fn time(&mut self, time_us: i64) -> io::Result<()> {
        if time_us != NO_TIME {
            self.key("time_us")?;
            self.pickler.int(i128::from(time_us));
        }
        Ok(())
    }

    pub(super) fn pool(&mut self, key: &'static str, pool: PoolId) -> io::Result<()> {
        self.key(key)?;
        self.pickler.int(i128::from(pool.0));
        self.pickler.int(i128::from(pool.1));
        self.pickler.tuple2();
        Ok(())
    }

    pub(super) fn string(&mut self, id: StringId) -> io::Result<()> {
        if let Some(Some(memo)) = self.strings.get(id.0 as usize) {
            self.pickler.get(*memo);
            return Ok(());
        }
        self.pickler.text(self.trace.strings.get(id))?;
        if let Some(slot) = self.strings.get_mut(id.0 as usize) {
            *slot = Some(self.pickler.memoize());
        }
        Ok(())
    }

    pub(super) fn frame(&mut self, id: FrameId) -> io::Result<()> {
        if let Some(Some(memo)) = self.frames.get(id.0 as usize) {
            self.pickler.get(*memo);
            return Ok(());
        }
        self.pickler.empty_dict();
        let memo = self.pickler.memoize();
        self.pickler.mark();
        let frame = self.trace.frames.get(id);
        self.key("name")?;
        self.string(frame.function)?;
        self.key("filename")?;
        self.string(frame.file)?;
        self.int("line", frame.line)?;
        self.pickler.set_items();
        if let Some(slot) = self.frames.get_mut(id.0 as usize) {
            *slot = Some(memo);
        }
        Ok(())
    }

    pub(super) fn stack(&mut self, id: StackId) -> io::Result<()> {
        let frames = self.trace.stacks.get(id);
        if frames.is_empty() {
            self.pickler.empty_list();
            return Ok(());
        }
        if let Some(Some(memo)) = self.stacks.get(id.0 as usize) {
            self.pickler.get(*memo);
            return Ok(());
        }
        self.pickler.empty_list();
        let memo = self.pickler.memoize();
        for batch in frames.chunks(BATCH) {
            self.pickler.mark();
            for &frame in batch {
                self.frame(frame)?;
            }
            self.pickler.appends();
        }
        if let Some(slot) = self.stacks.get_mut(id.0 as usize) {
            *slot = Some(memo);
        }
        Ok(())
    }
}
