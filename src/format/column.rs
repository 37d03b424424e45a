//! Columns: `n` integers of 64 bits in as few bytes as their range needs.
//!
//! Owns both encodings of `docs/trace-format.md`, "Columns". All arithmetic wraps at 2^64, so every sequence
//! of integers survives, and no input can overflow.

use super::cursor::{Cursor, Fault, Parse};
use super::packer::Packer;

/// `value = base + stored`.
const OFFSET: u64 = 0;
/// `value = previous + base + stored`, where the first previous value is `start`.
const DELTA: u64 = 1;

/// A column in the file, not yet decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column<'a> {
    start: Option<u64>,
    base: u64,
    width: usize,
    data: &'a [u8],
}

impl<'a> Column<'a> {
    /// Reads a column that must have `count` rows.
    pub(super) fn read(cursor: &mut Cursor<'a>, count: usize) -> Parse<Self> {
        let length = cursor.array()?;
        let (encoding, width, base) = (cursor.uint()?, cursor.uint()?, cursor.word()?);
        let data = cursor.bin()?;
        let (start, known) = match encoding {
            OFFSET => (None, 4),
            DELTA => (Some(cursor.word()?), 5),
            _ => return Err(Fault::Wrong("a column encoding that is not known")),
        };
        // Later versions may append elements.
        for _ in known..length {
            cursor.skip()?;
        }
        if length < known || !matches!(width, 0 | 1 | 2 | 4 | 8) {
            return Err(Fault::Wrong("a column of an impossible width"));
        }
        let width = width as usize;
        if count.checked_mul(width) != Some(data.len()) {
            return Err(Fault::Wrong("a column of another length than stated"));
        }
        Ok(Self { start, base, width, data })
    }

    /// Bytes that a row takes: 0 where all are equal.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Writes `convert(value)` of every row into `out`, which has as many rows as the column.
    pub(super) fn fill<T>(&self, out: &mut [T], convert: impl FnMut(u64) -> T) {
        match self.width {
            0 => self.write(std::iter::repeat_n(0, out.len()), out, convert),
            1 => self.write(self.data.iter().map(|&byte| u64::from(byte)), out, convert),
            2 => self.write(
                words::<2>(self.data).map(|word| u64::from(u16::from_le_bytes(*word))),
                out,
                convert,
            ),
            4 => self.write(
                words::<4>(self.data).map(|word| u64::from(u32::from_le_bytes(*word))),
                out,
                convert,
            ),
            _ => self.write(words::<8>(self.data).map(|word| u64::from_le_bytes(*word)), out, convert),
        }
    }

    fn write<T>(&self, stored: impl Iterator<Item = u64>, out: &mut [T], mut convert: impl FnMut(u64) -> T) {
        if let Some(mut value) = self.start {
            for (row, stored) in out.iter_mut().zip(stored) {
                value = value.wrapping_add(self.base).wrapping_add(stored);
                *row = convert(value);
            }
        } else {
            for (row, stored) in out.iter_mut().zip(stored) {
                *row = convert(self.base.wrapping_add(stored));
            }
        }
    }

    /// All rows as they are.
    pub(super) fn values(&self, count: usize) -> Vec<u64> {
        let mut values = vec![0; count];
        self.fill(&mut values, |value| value);
        values
    }
}

fn words<const N: usize>(data: &[u8]) -> impl Iterator<Item = &[u8; N]> {
    data.as_chunks::<N>().0.iter()
}

/// Packs `values` as they are, in at least `least_width` bytes each: the width that their range needs, with
/// the smallest as base.
pub(super) fn pack_offset(packer: &mut Packer, values: &[u64], least_width: usize) {
    let base = values.iter().copied().min().unwrap_or(0);
    let range = values.iter().copied().max().unwrap_or(0) - base;
    let width = width_of(range).max(least_width);
    packer.array(4).uint(OFFSET).uint(width as u64).uint(base);
    packer.bin(&stored(values.iter().map(|value| value - base), width, values.len()));
}

/// Packs the differences of neighbours: for columns that grow, such as times.
pub(super) fn pack_delta(packer: &mut Packer, values: &[u64]) {
    let steps: Vec<i64> = values.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]) as i64).collect();
    let base = steps.iter().copied().min().unwrap_or(0);
    let largest = steps.iter().copied().max().unwrap_or(0);
    let width = width_of(largest.wrapping_sub(base) as u64);
    let start = values.first().map_or(0, |&first| first.wrapping_sub(base as u64));
    let deltas = std::iter::once(0).chain(steps.iter().map(|&step| step.wrapping_sub(base) as u64));
    packer.array(5).uint(DELTA).uint(width as u64).int(base);
    packer.bin(&stored(deltas.take(values.len()), width, values.len())).uint(start);
}

fn width_of(range: u64) -> usize {
    match range {
        0 => 0,
        1..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

fn stored(values: impl Iterator<Item = u64>, width: usize, count: usize) -> Vec<u8> {
    let mut data = Vec::with_capacity(count * width);
    for value in values {
        data.extend_from_slice(&value.to_le_bytes()[..width]);
    }
    data
}

/// Reads the column that comes next, of `count` rows, as integers of up to 32 bits.
pub(super) fn read_small(cursor: &mut Cursor<'_>, count: usize) -> Parse<Vec<u32>> {
    let mut all_fit = true;
    let mut values = vec![0; count];
    Column::read(cursor, count)?.fill(&mut values, |value| {
        all_fit &= u32::try_from(value).is_ok();
        value as u32
    });
    if all_fit { Ok(values) } else { Err(Fault::Wrong("a column with an integer over 32 bits")) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn again(packer: Packer, count: usize) -> Vec<u64> {
        let bytes = packer.into_bytes();
        let mut cursor = Cursor::new(&bytes, 0);
        let values = Column::read(&mut cursor, count).unwrap().values(count);
        assert_eq!(cursor.position(), bytes.len());
        values
    }

    #[test]
    fn every_sequence_survives_both_encodings() {
        let cases: [&[u64]; 8] = [
            &[],
            &[5],
            &[7, 7, 7],
            &[1, 2, 256],
            &[1 << 40, (1 << 40) + 70_000],
            &[0, u64::MAX],
            &[u64::MAX, 0, 1 << 63, 3],
            &[i64::MIN as u64, 1_795_962_240_274_936, i64::MIN as u64],
        ];
        for values in cases {
            let (mut offset, mut delta) = (Packer::default(), Packer::default());
            pack_offset(&mut offset, values, 0);
            pack_delta(&mut delta, values);
            assert_eq!(again(offset, values.len()), values);
            assert_eq!(again(delta, values.len()), values);
        }
    }

    #[test]
    fn width_follows_the_range_and_not_the_values() {
        let width = |values: &[u64]| {
            let mut packer = Packer::default();
            pack_offset(&mut packer, values, 0);
            packer.bytes()[2]
        };
        assert_eq!(width(&[9, 9]), 0);
        assert_eq!(width(&[1 << 50, (1 << 50) + 255]), 1);
        assert_eq!(width(&[0, 256]), 2);
        assert_eq!(width(&[0, 65_536]), 4);
        assert_eq!(width(&[0, 1 << 32]), 8);
    }

    #[test]
    fn lengths_that_contradict_the_count_are_refused() {
        let mut packer = Packer::default();
        pack_offset(&mut packer, &[1, 2, 3], 0);
        let bytes = packer.into_bytes();
        assert!(Column::read(&mut Cursor::new(&bytes, 0), 3).is_ok());
        assert!(Column::read(&mut Cursor::new(&bytes, 0), 4).is_err());
        assert!(Column::read(&mut Cursor::new(&bytes, 0), usize::MAX).is_err());
        let odd_width = [0x94, 0, 3, 0, 0xc4, 3, 1, 2, 3];
        assert!(Column::read(&mut Cursor::new(&odd_width, 0), 1).is_err());
    }
}
