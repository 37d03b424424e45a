//! Opcodes of a protocol-4 pickle, no more of them than PyTorch's viewer knows.

use std::io::{self, Write};

/// Bytes are handed on in pieces of this size.
const BUFFER_BYTES: usize = 1 << 16;

/// Writes one pickle.
pub(super) struct Pickler<'w> {
    out: &'w mut dyn Write,
    buffer: Vec<u8>,
    memoized: u32,
}

/// A place in the memo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memo(u32);

impl<'w> Pickler<'w> {
    pub(super) fn new(out: &'w mut dyn Write) -> Self {
        Self { out, buffer: b"\x80\x04".to_vec(), memoized: 0 }
    }

    /// Ends the pickle.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.buffer.push(b'.');
        self.out.write_all(&self.buffer)?;
        self.out.flush()
    }

    /// Hands on what is written so far, once it is worth it. To be called between objects.
    pub(super) fn spill(&mut self) -> io::Result<()> {
        if self.buffer.len() >= BUFFER_BYTES {
            self.out.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    pub(super) fn empty_list(&mut self) {
        self.buffer.push(b']');
    }

    pub(super) fn empty_dict(&mut self) {
        self.buffer.push(b'}');
    }

    /// Begins the items of the list or dict that was written last.
    pub(super) fn mark(&mut self) {
        self.buffer.push(b'(');
    }

    /// Ends the items of a list.
    pub(super) fn appends(&mut self) {
        self.buffer.push(b'e');
    }

    /// Ends the items of a dict.
    pub(super) fn set_items(&mut self) {
        self.buffer.push(b'u');
    }

    /// Makes a tuple of the two values that were written last.
    pub(super) fn tuple2(&mut self) {
        self.buffer.push(0x86);
    }

    pub(super) fn bool(&mut self, value: bool) {
        self.buffer.push(if value { 0x88 } else { 0x89 });
    }

    pub(super) fn float(&mut self, value: f64) {
        self.buffer.push(b'G');
        self.buffer.extend(value.to_be_bytes());
    }

    pub(super) fn int(&mut self, value: i128) {
        if let Ok(value) = u8::try_from(value) {
            self.buffer.extend([b'K', value]);
        } else if let Ok(value) = u16::try_from(value) {
            self.buffer.push(b'M');
            self.buffer.extend(value.to_le_bytes());
        } else if let Ok(value) = i32::try_from(value) {
            self.buffer.push(b'J');
            self.buffer.extend(value.to_le_bytes());
        } else {
            self.long(value);
        }
    }

    /// As few bytes of two's complement as keep the sign.
    fn long(&mut self, value: i128) {
        let bits = 129 - if value < 0 { value.leading_ones() } else { value.leading_zeros() };
        let count = bits.div_ceil(8).min(16) as u8;
        self.buffer.extend([0x8a, count]);
        self.buffer.extend(&value.to_le_bytes()[..usize::from(count)]);
    }

    /// A text.
    ///
    /// # Errors
    /// For more than 4 GiB, which the viewer cannot read.
    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        if let Ok(length) = u8::try_from(text.len()) {
            self.buffer.extend([0x8c, length]);
        } else {
            let length =
                u32::try_from(text.len()).map_err(|_| io::Error::other("a text of more than 4 GiB"))?;
            self.buffer.push(b'X');
            self.buffer.extend(length.to_le_bytes());
        }
        self.buffer.extend(text.as_bytes());
        Ok(())
    }

    /// Remembers the value that was written last.
    pub(super) fn memoize(&mut self) -> Memo {
        self.buffer.push(0x94);
        self.memoized += 1;
        Memo(self.memoized - 1)
    }

    /// Writes a remembered value again.
    pub(super) fn get(&mut self, memo: Memo) {
        if let Ok(index) = u8::try_from(memo.0) {
            self.buffer.extend([b'h', index]);
        } else {
            self.buffer.push(b'j');
            self.buffer.extend(memo.0.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn integers_take_as_few_bytes_as_keep_their_sign() {
        let mut out = Vec::new();
        let mut pickler = Pickler::new(&mut out);
        for value in [255, 256, -1, 1 << 31, i128::from(u64::MAX), -(1 << 40)] {
            pickler.int(value);
        }
        pickler.finish().unwrap();
        let wanted: &[u8] = b"\x80\x04K\xffM\0\x01J\xff\xff\xff\xff\x8a\x05\0\0\0\x80\0\
            \x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0\x8a\x06\0\0\0\0\0\xff.";
        assert_eq!(out, wanted);
    }
}
