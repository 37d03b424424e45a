//! How a reduced recording packs the columns of a report, and takes them apart again.
//!
//! Owns the packing alone: a column becomes the zigzag differences of neighbours as variable-length integers in one
//! byte string. What is read back is hostile: every value costs a byte at least, so a column is never longer than
//! its bytes.

use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer};

use super::pictures::{MapBlock, MapState};
use super::types::ByCause;

/// One of the few words that a report has for a thing. An alias, because serde would borrow a plain reference.
pub type Word = &'static str;

/// Every such word.
const WORDS: [Word; 11] = [
    "memlab-trace",
    "torch-snapshot",
    "small",
    "large",
    "error",
    "warning",
    "info",
    "peak",
    "reserved-peak",
    "oom",
    "step",
];

/// Reads a word; one that no report has is an error.
pub(super) fn word<'de, D: Deserializer<'de>>(from: D) -> Result<Word, D::Error> {
    let text = String::deserialize(from)?;
    let known = WORDS.into_iter().find(|word| *word == text);
    known.ok_or_else(|| D::Error::invalid_value(Unexpected::Other("a word of no report"), &"a known word"))
}

/// `values` as bytes.
fn pack(values: impl Iterator<Item = u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut before = 0u64;
    for value in values {
        let step = value.wrapping_sub(before) as i64;
        before = value;
        let mut rest = ((step << 1) ^ (step >> 63)) as u64;
        while rest >= 0x80 {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
    }
    bytes
}

/// The values in `bytes`; `None` when they end within one, or one has more than 64 bits.
fn unpack(bytes: &[u8]) -> Option<Vec<u64>> {
    let mut values = Vec::new();
    let (mut before, mut read, mut shift) = (0u64, 0u64, 0u32);
    for &byte in bytes {
        if shift > 63 || (shift == 63 && byte > 1) {
            return None;
        }
        read |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            let step = (read >> 1) ^ (read & 1).wrapping_neg();
            before = before.wrapping_add(step);
            values.push(before);
            (read, shift) = (0, 0);
        }
    }
    (shift == 0).then_some(values)
}

fn bad<E: serde::de::Error>() -> E {
    E::custom("a column that is cut short, or whose columns are not of one length")
}

/// `columns` as they were packed; all must be of one length.
fn same_length<E: serde::de::Error, const N: usize>(
    packed: &[serde_bytes::ByteBuf],
) -> Result<[Vec<u64>; N], E> {
    let columns: Vec<Vec<u64>> =
        packed.iter().map(|bytes| unpack(bytes)).collect::<Option<_>>().ok_or_else(bad)?;
    let columns: [Vec<u64>; N] = columns.try_into().map_err(|_| bad())?;
    let length = columns.first().map_or(0, Vec::len);
    if columns.iter().all(|column| column.len() == length) { Ok(columns) } else { Err(bad()) }
}

/// A column.
pub(super) mod curve {
    use serde::{Deserializer, Serializer};
    use serde_bytes::ByteBuf;

    use super::{bad, pack, unpack};

    pub(in crate::report) fn serialize<S: Serializer>(values: &[u64], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(&pack(values.iter().copied()))
    }

    pub(in crate::report) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
        let bytes: ByteBuf = serde_bytes::deserialize(from)?;
        unpack(&bytes).ok_or_else(bad)
    }
}

/// Columns beside each other.
pub(super) mod curves {
    use serde::{Deserialize as _, Deserializer, Serializer};
    use serde_bytes::ByteBuf;

    use super::{bad, pack, unpack};

    pub(in crate::report) fn serialize<S: Serializer>(
        columns: &[Vec<u64>],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(columns.iter().map(|column| ByteBuf::from(pack(column.iter().copied()))))
    }

    pub(in crate::report) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Vec<u64>>, D::Error> {
        let packed = Vec::<ByteBuf>::deserialize(from)?;
        packed.iter().map(|bytes| unpack(bytes)).collect::<Option<_>>().ok_or_else(bad)
    }
}

/// Bytes by cause: a column per cause.
pub(super) mod causes {
    use serde::{Deserialize as _, Deserializer, Serializer};
    use serde_bytes::ByteBuf;

    use super::{ByCause, pack, same_length};

    pub(in crate::report) fn serialize<S: Serializer>(rows: &[ByCause], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq((0..6).map(|cause| ByteBuf::from(pack(rows.iter().map(|row| row.named()[cause].1)))))
    }

    pub(in crate::report) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<ByCause>, D::Error> {
        let columns: [Vec<u64>; 6] = same_length(&Vec::<ByteBuf>::deserialize(from)?)?;
        let row = |row: usize| ByCause {
            rounding_bytes: columns[0][row],
            pending_free_bytes: columns[1][row],
            split_remainder_bytes: columns[2][row],
            other_stream_bytes: columns[3][row],
            private_pool_bytes: columns[4][row],
            releasable_cache_bytes: columns[5][row],
        };
        Ok((0..columns[0].len()).map(row).collect())
    }
}

/// Blocks of a segment: a column per field.
pub(super) mod blocks {
    use serde::{Deserialize as _, Deserializer, Serializer};
    use serde_bytes::ByteBuf;

    use super::{MapBlock, MapState, bad, pack, same_length};

    pub(in crate::report) fn serialize<S: Serializer>(rows: &[MapBlock], to: S) -> Result<S::Ok, S::Error> {
        let column = |of: fn(&MapBlock) -> u64| ByteBuf::from(pack(rows.iter().map(of)));
        // 0 stands for a block without a rank.
        let rank = |row: &MapBlock| row.rank.map_or(0, |rank| u64::from(rank) + 1);
        let state = |row: &MapBlock| row.state as u64;
        to.collect_seq([
            column(|row| row.bytes),
            column(|row| row.requested_bytes),
            column(state),
            column(rank),
        ])
    }

    pub(in crate::report) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<MapBlock>, D::Error> {
        let columns: [Vec<u64>; 4] = same_length(&Vec::<ByteBuf>::deserialize(from)?)?;
        let states = [MapState::InUse, MapState::Pending, MapState::Free];
        let row = |row: usize| {
            let rank = u32::try_from(columns[3][row]).ok()?;
            Some(MapBlock {
                bytes: columns[0][row],
                requested_bytes: columns[1][row],
                state: *states.get(usize::try_from(columns[2][row]).ok()?)?,
                rank: rank.checked_sub(1),
            })
        };
        (0..columns[0].len()).map(row).collect::<Option<_>>().ok_or_else(bad)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_column_comes_back() {
        for values in
            [vec![], vec![0], vec![u64::MAX, 0, u64::MAX, 1 << 63, 5, 5], (0..1000).collect::<Vec<_>>()]
        {
            assert_eq!(unpack(&pack(values.iter().copied())).unwrap(), values);
        }
        assert_eq!(pack((0..1000).map(|n| n * 3)).len(), 1000, "a byte for a small step");
    }

    #[test]
    fn what_is_cut_or_too_long_is_refused() {
        assert_eq!(unpack(&[0x80]), None);
        assert_eq!(unpack(&[0xff; 11]), None);
        assert_eq!(unpack(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]), None);
        let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(unpack(&most).unwrap(), [1 << 63]);
    }

    #[test]
    fn blocks_and_causes_come_back_and_uneven_columns_do_not() {
        let block = |bytes, state, rank| MapBlock { bytes, requested_bytes: bytes / 3, state, rank };
        let segment = super::super::MapSegment {
            blocks: vec![block(512, MapState::Pending, Some(0)), block(7, MapState::Free, None)],
            ..super::super::MapSegment::default()
        };
        let bytes = rmp_serde::to_vec_named(&segment).unwrap();
        assert_eq!(rmp_serde::from_slice::<super::super::MapSegment>(&bytes).unwrap(), segment);
        let uneven: [serde_bytes::ByteBuf; 2] =
            [pack([1].into_iter()), pack([1, 2].into_iter())].map(Into::into);
        assert!(same_length::<serde::de::value::Error, 2>(&uneven).is_err());
    }

    #[test]
    fn a_word_of_no_report_is_refused() {
        use serde::de::IntoDeserializer as _;
        let read = |text: &str| {
            let from: serde::de::value::StrDeserializer<'_, serde::de::value::Error> =
                text.into_deserializer();
            word(from)
        };
        assert_eq!(read("small").unwrap(), "small");
        assert!(read("smaller").is_err());
    }
}
