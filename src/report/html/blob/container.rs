//! The container: a length, a JSON header, and the bytes of the columns that the header names.
//!
//! Owns layout and compression. Knows no key of any header.

use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde_json::Value;
use std::io::Write;

use super::{Column, MOST_EXACT};

/// A part of a header.
#[derive(Clone, Debug)]
pub enum Part {
    /// Plain JSON.
    Value(Value),
    /// A column, which goes to the payload.
    Column(Column),
    /// Several.
    List(Vec<Part>),
    /// Named ones, in this order.
    Map(Vec<(&'static str, Part)>),
}

impl Part {
    /// A number that may be unknown.
    #[must_use]
    pub fn number(value: impl Into<Option<u64>>) -> Self {
        let value: Option<u64> = value.into();
        Self::Value(value.map_or(Value::Null, |value| value.min(MOST_EXACT).into()))
    }

    /// What may be absent.
    #[must_use]
    pub fn or_null(part: Option<Self>) -> Self {
        part.unwrap_or(Self::Value(Value::Null))
    }

    /// A list of texts or numbers.
    #[must_use]
    pub fn values<T: Into<Value>>(values: impl IntoIterator<Item = T>) -> Self {
        Self::Value(values.into_iter().map(Into::into).collect::<Vec<Value>>().into())
    }
}

impl From<Column> for Part {
    fn from(column: Column) -> Self {
        Self::Column(column)
    }
}

impl From<bool> for Part {
    fn from(value: bool) -> Self {
        Self::Value(value.into())
    }
}

/// `header` as a container, compressed.
///
/// # Panics
/// Never: writing into a vector does not fail.
#[must_use]
pub fn pack(header: &Part) -> Vec<u8> {
    let (mut text, mut columns, mut at) = (Vec::new(), Vec::new(), 0);
    write(header, &mut text, &mut columns, &mut at);
    let mut encoder = DeflateEncoder::new(Vec::with_capacity(text.len() / 2), Compression::new(9));
    let mut put = |bytes: &[u8]| encoder.write_all(bytes).expect("writing into a vector does not fail");
    put(&(text.len() as u32).to_le_bytes());
    put(&text);
    for column in columns {
        put(&column.bytes);
    }
    encoder.finish().expect("writing into a vector does not fail")
}

/// How many characters `bytes` are as base64.
#[must_use]
pub fn packed_bytes(bytes: &[u8]) -> u64 {
    bytes.len().div_ceil(3) as u64 * 4
}

/// Appends `part` as JSON. Headers are ours, so they are as deep as our code makes them.
fn write<'a>(part: &'a Part, text: &mut Vec<u8>, columns: &mut Vec<&'a Column>, at: &mut usize) {
    match part {
        Part::Value(value) => json(value, text),
        Part::Column(column) => {
            let (values, coding) = (column.values, column.coding);
            text.extend_from_slice(format!(r#"{{"at":{at},"n":{values},"as":"{coding}"}}"#).as_bytes());
            *at += column.bytes.len();
            columns.push(column);
        }
        Part::List(parts) => {
            text.push(b'[');
            for (index, part) in parts.iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                write(part, text, columns, at);
            }
            text.push(b']');
        }
        Part::Map(parts) => {
            text.push(b'{');
            for (index, (key, part)) in parts.iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                json(key, text);
                text.push(b':');
                write(part, text, columns, at);
            }
            text.push(b'}');
        }
    }
}

fn json(value: &impl serde::Serialize, text: &mut Vec<u8>) {
    serde_json::to_writer(text, value).expect("plain values always serialise into memory");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_container_names_its_columns_by_their_place() {
        let header = Part::Map(vec![
            ("a", Column::plain([300u64, 1]).into()),
            ("b", Part::List(vec![Column::delta([7u32]).into(), Part::number(None), true.into()])),
            ("c", Part::values(["x</script>"])),
        ]);
        let packed = pack(&header);
        let mut bytes = Vec::new();
        flate2::read::DeflateDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
        let text = std::str::from_utf8(&bytes[4..4 + length]).unwrap();
        assert_eq!(
            text,
            r#"{"a":{"at":0,"n":2,"as":"plain"},"b":[{"at":3,"n":1,"as":"delta"},null,true],"c":["x</script>"]}"#
        );
        assert_eq!(bytes[4 + length..], [0xac, 2, 1, 7]);
        assert_eq!((packed_bytes(&[]), packed_bytes(&[0; 4])), (0, 8));
    }
}
