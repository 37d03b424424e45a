//! MessagePack into memory.
//!
//! Owns: the shortest form of every value (`rmp`'s choice, which is also that of other libraries), and maps
//! whose number of keys is known only at the end. Does not know chunks or columns.

use rmp::encode;

const INFALLIBLE: &str = "writing into memory does not fail";

/// Collects packed values.
#[derive(Clone, Debug, Default)]
pub(super) struct Packer {
    bytes: Vec<u8>,
}

impl Packer {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Packed bytes so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends values that are packed already.
    pub(super) fn raw(&mut self, packed: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(packed);
        self
    }

    pub(super) fn nil(&mut self) -> &mut Self {
        encode::write_nil(&mut self.bytes).expect(INFALLIBLE);
        self
    }

    pub(super) fn bool(&mut self, value: bool) -> &mut Self {
        encode::write_bool(&mut self.bytes, value).expect(INFALLIBLE);
        self
    }

    pub(super) fn uint(&mut self, value: u64) -> &mut Self {
        encode::write_uint(&mut self.bytes, value).expect(INFALLIBLE);
        self
    }

    pub(super) fn int(&mut self, value: i64) -> &mut Self {
        encode::write_sint(&mut self.bytes, value).expect(INFALLIBLE);
        self
    }

    pub(super) fn float(&mut self, value: f64) -> &mut Self {
        encode::write_f64(&mut self.bytes, value).expect(INFALLIBLE);
        self
    }

    pub(super) fn text(&mut self, value: &str) -> &mut Self {
        encode::write_str(&mut self.bytes, value).expect(INFALLIBLE);
        self
    }

    pub(super) fn bin(&mut self, value: &[u8]) -> &mut Self {
        encode::write_bin(&mut self.bytes, value).expect(INFALLIBLE);
        self
    }

    pub(super) fn ext(&mut self, kind: i8, value: &[u8]) -> &mut Self {
        encode::write_ext_meta(&mut self.bytes, value.len() as u32, kind).expect(INFALLIBLE);
        self.raw(value)
    }

    pub(super) fn array(&mut self, length: usize) -> &mut Self {
        encode::write_array_len(&mut self.bytes, length as u32).expect(INFALLIBLE);
        self
    }

    pub(super) fn map(&mut self, length: usize) -> &mut Self {
        encode::write_map_len(&mut self.bytes, length as u32).expect(INFALLIBLE);
        self
    }
}

/// A map that counts its keys while it is filled.
#[derive(Clone, Debug, Default)]
pub(super) struct MapPacker {
    length: usize,
    entries: Packer,
}

impl MapPacker {
    /// Enters a key; the caller packs exactly one value behind it.
    pub(super) fn key(&mut self, name: &str) -> &mut Packer {
        self.length += 1;
        self.entries.text(name)
    }

    /// Enters a key with an unsigned value.
    pub(super) fn uint(&mut self, name: &str, value: u64) -> &mut Self {
        self.key(name).uint(value);
        self
    }

    /// Whether no key was entered.
    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The packed map, or nothing at all if no key was entered: a chunk without payload.
    pub(super) fn into_payload(self) -> Vec<u8> {
        if self.is_empty() { Vec::new() } else { self.into_bytes() }
    }

    /// The packed map.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        let mut packed = Packer::default();
        packed.map(self.length).raw(&self.entries.bytes);
        packed.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_count_their_keys() {
        let mut map = MapPacker::default();
        map.uint("a", 1).key("b").bool(true);
        assert_eq!(map.into_bytes(), [0x82, 0xa1, b'a', 1, 0xa1, b'b', 0xc3]);
        assert_eq!(MapPacker::default().into_bytes(), [0x80]);
    }
}
