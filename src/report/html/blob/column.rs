//! A column of whole numbers, as short as its values allow: LEB128, of the values or of their differences.

use super::MOST_EXACT;

/// A column, written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub(super) coding: &'static str,
    pub(super) values: u64,
    pub(super) bytes: Vec<u8>,
}

impl Column {
    /// The values themselves.
    #[must_use]
    pub fn plain<T: Into<u64>>(values: impl IntoIterator<Item = T>) -> Self {
        Self::written("plain", values, |_, value| value)
    }

    /// For values that never fall: differences to the value before. One that does fall is taken as equal.
    #[must_use]
    pub fn delta<T: Into<u64>>(values: impl IntoIterator<Item = T>) -> Self {
        let mut highest = 0u64;
        Self::written("delta", values, move |_, value| {
            let step = value.saturating_sub(highest);
            highest = highest.max(value);
            step
        })
    }

    /// Differences to the value before, up or down.
    #[must_use]
    pub fn zigzag<T: Into<u64>>(values: impl IntoIterator<Item = T>) -> Self {
        Self::written("zigzag", values, |before, value| {
            let step = value as i64 - before as i64;
            ((step << 1) ^ (step >> 63)) as u64
        })
    }

    fn written<T: Into<u64>>(
        coding: &'static str,
        values: impl IntoIterator<Item = T>,
        mut code: impl FnMut(u64, u64) -> u64,
    ) -> Self {
        let values = values.into_iter();
        let mut column = Self { coding, values: 0, bytes: Vec::with_capacity(values.size_hint().0) };
        let mut before = 0;
        for value in values {
            let value = value.into().min(MOST_EXACT);
            push(&mut column.bytes, code(before, value));
            before = value;
            column.values += 1;
        }
        column
    }
}

fn push(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_the_format_says() {
        assert_eq!(Column::plain([0u64, 127, 128, 300]).bytes, [0, 127, 0x80, 1, 0xac, 2]);
        assert_eq!(Column::delta([5u32, 5, 9]).bytes, [5, 0, 4]);
        assert_eq!(Column::zigzag([3u64, 1, 2]).bytes, [6, 3, 2]);
        assert_eq!((Column::plain([true, false]).bytes, Column::plain([true]).values), (vec![1, 0], 1));
    }

    #[test]
    fn what_a_script_cannot_hold_saturates() {
        assert_eq!(Column::plain([u64::MAX]), Column::plain([MOST_EXACT]));
        assert_eq!(Column::zigzag([u64::MAX, 0]).bytes.len(), 16);
        assert_eq!(Column::delta([9u64, 3, 10]).bytes, [9, 0, 1]);
    }
}
