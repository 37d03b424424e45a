//! Hashes of stacks: the same stack has the same hash in every file, on every rank.
//!
//! Owns the algorithm, which is part of the tables' schema. Numbers of stacks are a file's own; hashes are what
//! rows of several files are joined by. They are no protection against a forged file.

use crate::model::{FrameId, StackId, Trace};

/// The algorithm in words, printed in the documentation.
pub(super) const HASH_RULE: &str = "`stack_hash` is the 64-bit FNV-1a hash (offset basis `cbf29ce484222325`, \
    prime `100000001b3`) over the hashes of the stack's frames, innermost first, eight bytes each, little-endian. \
    The hash of a frame is the same function over the file's bytes, a byte `ff`, the function's bytes, a byte \
    `ff`, and the line as eight little-endian bytes, 0 when it is not known. It is written as 16 lower-case \
    hexadecimal digits";

const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;
/// Stands in no UTF-8 text.
const END_OF_TEXT: [u8; 1] = [0xff];

/// The hash of every stack of a trace, by stack number.
#[derive(Clone, Debug, Default)]
pub struct StackHashes(Vec<u64>);

impl StackHashes {
    /// Two passes: over the frames' texts, and over the stacks.
    #[must_use]
    pub fn of(trace: &Trace) -> Self {
        let frames: Vec<u64> =
            (0..trace.frames.len() as u32).map(|id| frame_hash(trace, FrameId(id))).collect();
        let of_frame = |id: FrameId| frames.get(id.0 as usize).copied().unwrap_or(OFFSET_BASIS);
        let of_stack = |stack: &[FrameId]| {
            stack.iter().fold(OFFSET_BASIS, |hash, &id| fold(hash, &of_frame(id).to_le_bytes()))
        };
        Self(trace.stacks.iter().map(of_stack).collect())
    }

    /// The digits of `stack`'s hash; `None` when no stack was recorded.
    pub(super) fn text(&self, stack: StackId) -> Option<String> {
        let hash = self.0.get(stack.0 as usize).filter(|_| stack != StackId::NONE)?;
        Some(format!("{hash:016x}"))
    }
}

fn frame_hash(trace: &Trace, id: FrameId) -> u64 {
    let frame = trace.frames.get(id);
    let line = if frame.line == u64::MAX { 0 } else { frame.line };
    let texts = [trace.strings.get(frame.file), trace.strings.get(frame.function)];
    let hash = texts.iter().fold(OFFSET_BASIS, |hash, text| fold(fold(hash, text.as_bytes()), &END_OF_TEXT));
    fold(hash, &line.to_le_bytes())
}

fn fold(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TraceBuilder;

    #[test]
    fn the_function_is_fnv_1a() {
        // From the authors' list of test vectors.
        assert_eq!(fold(OFFSET_BASIS, b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fold(OFFSET_BASIS, b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_stack_has_one_hash_whatever_its_number() {
        let stack = [("a.py", 1, "f"), ("b.py", 2, "g")];
        let one = TraceBuilder::new().stack(&stack).alloc(0, 512).build();
        let other =
            TraceBuilder::new().stack(&[("b.py", 2, "g")]).alloc(0, 512).stack(&stack).alloc(512, 512);
        let other = other.build();
        let (one, other) = (StackHashes::of(&one), StackHashes::of(&other));
        assert_eq!(one.text(StackId(1)), other.text(StackId(2)));
        assert_ne!(one.text(StackId(1)), other.text(StackId(1)));
        assert_eq!(one.text(StackId(1)).map(|text| text.len()), Some(16));
        assert_eq!(one.text(StackId::NONE), None);
    }

    #[test]
    fn where_a_text_ends_matters() {
        let hash = |file: &str, function: &str| {
            let trace = TraceBuilder::new().at(file, 1, function).alloc(0, 512).build();
            StackHashes::of(&trace).text(StackId(1))
        };
        assert_ne!(hash("ab", "c"), hash("a", "bc"));
    }
}
