//! Frames and stacks that the shortcuts left alone: unusual keys, old pickles, JSON.
//!
//! A converted container is replaced by its number, so one that is shared is converted once.

use crate::error::Result;
use crate::import::graph::{NodeId, Value, View, Word};
use crate::model::{FrameId, StackId};

use super::Builder;

impl Builder<'_> {
    /// The stack that a value of `frames` stands for.
    pub(super) fn stack(&mut self, value: Value) -> Result<StackId> {
        match value.view() {
            View::Stack(stack) => Ok(stack),
            View::List(node) | View::Tuple(node) => self.stack_of_list(node),
            View::None => Ok(StackId::NONE),
            _ => {
                self.odd("frames", "a list of frames");
                Ok(StackId::NONE)
            }
        }
    }

    fn stack_of_list(&mut self, node: NodeId) -> Result<StackId> {
        if let [only] = self.graph.items(node)
            && let Some(stack) = only.as_stack()
        {
            return Ok(stack);
        }
        let count = self.graph.items(node).len();
        let mut frames = Vec::with_capacity(count.min(4096));
        for index in 0..count {
            let item = self.item(node, index)?;
            if let Some(frame) = self.frame(item)? {
                frames.push(frame);
            }
        }
        self.rows.ledger.charge(frames.len() * size_of::<FrameId>(), 0)?;
        let stack = self.rows.stack(&frames);
        if stack != StackId::NONE {
            self.graph.replace(node, Value::stack(stack));
        }
        Ok(stack)
    }

    fn frame(&mut self, value: Value) -> Result<Option<FrameId>> {
        match value.view() {
            View::Frame(frame) => Ok(Some(frame)),
            View::Dict(node) => self.frame_of_dict(node).map(Some),
            View::FileText(_) | View::TableText(_) => {
                // 2.0 wrote C++ frames as bare texts.
                let text = self.graph.as_text(value).unwrap_or_default();
                Ok(Some(self.rows.frame(&text, "", 0)))
            }
            _ => {
                self.odd("frame", "a dict");
                Ok(None)
            }
        }
    }

    fn frame_of_dict(&mut self, node: NodeId) -> Result<FrameId> {
        if let [only] = self.graph.items(node)
            && let Some(frame) = only.as_frame()
        {
            return Ok(frame);
        }
        let entries = self.entries(node)?;
        let (mut name, mut file, mut line) = (Value::NONE, Value::NONE, 0);
        for pair in entries.chunks_exact(2) {
            match pair[0].word() {
                Word::Name => name = pair[1],
                Word::Filename => file = pair[1],
                Word::Line if pair[1].view() == View::None => {}
                Word::Line => line = self.pointer(pair[1], "line"),
                _ => self.unknown_key(pair[0], "a frame"),
            }
        }
        let name = self.graph.as_text(name).unwrap_or_default();
        let file = self.graph.as_text(file).unwrap_or_default();
        let frame = self.rows.frame(&name, &file, line);
        self.graph.replace(node, Value::frame(frame));
        Ok(frame)
    }
}
