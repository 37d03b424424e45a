//! What a pickle that ends too early still says.
//!
//! A killed dump breaks off inside the last list of events. What lies on the machine's stack is put into
//! the containers it was meant for, so that the events before the break can be used.

use crate::import::graph::{Value, View, Word};

use super::machine::Machine;

impl Machine<'_, '_> {
    /// Closes all that is open and gives the outermost object; `None` when there is none.
    pub(super) fn close_all(&mut self) -> Option<Value> {
        while let Some(start) = self.marks.pop() {
            self.close_items(start);
        }
        self.close_single_items(0);
        self.stack.first().copied()
    }

    /// Puts what lies above `start` into the container below it.
    fn close_items(&mut self, start: usize) {
        let at = self.cursor.bytes.len();
        if start <= self.marks.last().copied().unwrap_or(0) {
            // Nothing lies between two marks: these items have no container.
            self.stack.truncate(start);
            return;
        }
        let below = start.checked_sub(1).and_then(|index| self.stack.get(index)).map(|value| value.view());
        self.close_single_items(start);
        let pairs = matches!(below, Some(View::Dict(_)));
        if pairs && !self.is_outermost(start) {
            // Half an event or half a segment would be taken for a whole one.
            self.stack.truncate(start - 1);
            return;
        }
        if pairs && !(self.stack.len() - start).is_multiple_of(2) {
            // A key without its value.
            self.stack.pop();
        }
        // The budget may be spent, or the container may hold nothing: then these items are lost.
        let _ = self.extend_from(start, pairs, at);
        self.stack.truncate(start);
    }

    /// Whether the dict below `start` is the snapshot itself.
    fn is_outermost(&self, start: usize) -> bool {
        self.stack[start..].iter().any(|key| matches!(key.word(), Word::Segments | Word::DeviceTraces))
    }

    /// A list with one item is written as list, item, APPEND, without a mark: an item that lies right
    /// above a list which is still empty belongs into it.
    fn close_single_items(&mut self, start: usize) {
        while let [.., list, _item] = self.stack[start..]
            && let View::List(node) = list.view()
            && self.graph.items(node).is_empty()
        {
            let last = self.stack.len() - 1;
            if self.extend_from(last, false, self.cursor.bytes.len()).is_err() {
                return;
            }
            self.stack.truncate(last);
        }
    }
}
