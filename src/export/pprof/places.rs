//! Texts, functions and locations of a profile: each entered once, numbered in order of first use.
//!
//! Owns the numbering, and the one place that stands for "no stack was recorded". Does not own values.

use std::collections::HashMap;

use crate::model::{FrameId, StackId, StringTable, Trace, visible};

use super::messages::{Function, Line, Location};

/// Stands where a sample has no stack: without any location, `pprof` would show it nowhere.
const NO_STACK: &str = "[no stack recorded]";

/// Stands for a function without a name.
const NO_FUNCTION: &str = "[unknown]";

/// What a profile refers to by number.
pub(super) struct Places<'a> {
    trace: &'a Trace,
    texts: StringTable,
    functions: Vec<Function>,
    /// By name and file.
    function_ids: HashMap<(i64, i64), u64>,
    locations: Vec<Location>,
    /// By frame number; 0 until the frame is used.
    of_frame: Vec<u64>,
    no_stack: Option<u64>,
}

impl<'a> Places<'a> {
    pub(super) fn new(trace: &'a Trace) -> Self {
        Self {
            trace,
            texts: StringTable::default(),
            functions: Vec::new(),
            function_ids: HashMap::new(),
            locations: Vec::new(),
            of_frame: vec![0; trace.frames.len()],
            no_stack: None,
        }
    }

    /// The number of `text`, of which nothing steers a terminal.
    pub(super) fn text(&mut self, text: &str) -> i64 {
        i64::from(self.texts.intern(&visible(text)).0)
    }

    /// The locations of `stack`, innermost first; never none.
    pub(super) fn stack(&mut self, stack: StackId) -> Vec<u64> {
        let trace = self.trace;
        let frames = trace.stacks.get(stack);
        if frames.is_empty() {
            return vec![self.no_stack()];
        }
        frames.iter().map(|&frame| self.frame(frame)).collect()
    }

    /// The tables: texts, functions, locations.
    pub(super) fn finish(self) -> (Vec<String>, Vec<Function>, Vec<Location>) {
        (self.texts.iter().map(str::to_owned).collect(), self.functions, self.locations)
    }

    fn no_stack(&mut self) -> u64 {
        if let Some(known) = self.no_stack {
            return known;
        }
        let function = self.function(NO_STACK, "");
        let id = self.location(function, 0);
        self.no_stack = Some(id);
        id
    }

    fn frame(&mut self, id: FrameId) -> u64 {
        if let Some(&known) = self.of_frame.get(id.0 as usize).filter(|&&known| known != 0) {
            return known;
        }
        let trace = self.trace;
        let frame = trace.frames.get(id);
        let (function, file) = (trace.strings.get(frame.function), trace.strings.get(frame.file));
        let function = if function.is_empty() { NO_FUNCTION } else { function };
        // Native frames without a file are recorded as in `??`.
        let function = self.function(function, if file == "??" { "" } else { file });
        // Real files write 0 and 2^64-1 for a line that is not known.
        let location = self.location(function, i64::try_from(frame.line).unwrap_or(0));
        if let Some(slot) = self.of_frame.get_mut(id.0 as usize) {
            *slot = location;
        }
        location
    }

    fn function(&mut self, name: &str, file: &str) -> u64 {
        let (name, filename) = (self.text(name), self.text(file));
        let id = self.functions.len() as u64 + 1;
        let known = *self.function_ids.entry((name, filename)).or_insert(id);
        if known == id {
            self.functions.push(Function { id, name, filename });
        }
        known
    }

    fn location(&mut self, function_id: u64, line: i64) -> u64 {
        let id = self.locations.len() as u64 + 1;
        self.locations.push(Location { id, line: vec![Line { function_id, line }] });
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    #[test]
    fn everything_is_entered_once() {
        let trace = TraceBuilder::new()
            .stack(&[("a.py", 2, "f"), ("a.py", 9, "main")])
            .alloc(0, 512)
            .stack(&[("a.py", 3, "f"), ("a.py", 9, "main")])
            .alloc(512, 512)
            .at("??", u64::MAX, "")
            .alloc(1024, 512)
            .build();
        let mut places = Places::new(&trace);
        assert_eq!(places.stack(StackId(1)), [1, 2]);
        assert_eq!(places.stack(StackId(2)), [3, 2]);
        assert_eq!(places.stack(StackId(3)), [4]);
        assert_eq!(places.stack(StackId::NONE), [5]);
        assert_eq!(places.stack(StackId::NONE), [5]);
        let (texts, functions, locations) = places.finish();
        assert_eq!(texts, ["", "f", "a.py", "main", NO_FUNCTION, NO_STACK]);
        assert_eq!(functions.len(), 4, "f, main, no name, no stack");
        let lines: Vec<_> =
            locations.iter().map(|place| (place.line[0].function_id, place.line[0].line)).collect();
        assert_eq!(lines, [(1, 2), (2, 9), (1, 3), (3, 0), (4, 0)]);
    }
}
