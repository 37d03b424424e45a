//! The chunk of allocator settings.
//!
//! Owns the mapping of setting values to MessagePack. Integers that 64 bits cannot hold travel as extension
//! type 1: sixteen bytes, little-endian two's complement.

use std::collections::BTreeMap;
use std::io;

use crate::model::{SettingValue, Settings};

use super::budget::{self, PLAIN_BYTE};
use super::chunk::{Chunk, Kind};
use super::cursor::{Cursor, Fault, Parse, Token};
use super::fields::read_map;
use super::packer::{MapPacker, Packer};
use super::read::Context;
use super::write::Sink;

const WIDE_INTEGER: u8 = 1;

/// Writes the settings, if there are any.
pub(super) fn write(sink: &mut Sink<'_>, settings: &Settings) -> io::Result<()> {
    if settings.values.is_empty() {
        return Ok(());
    }
    let mut payload = MapPacker::default();
    for (key, value) in &settings.values {
        pack_value(payload.key(key), value);
    }
    sink.emit(Kind::Settings, MapPacker::default(), payload, |raw_len| {
        budget::rows(raw_len as u64, PLAIN_BYTE)
    })
}

fn pack_value(packer: &mut Packer, value: &SettingValue) {
    match value {
        SettingValue::Bool(value) => packer.bool(*value),
        SettingValue::Int(value) => pack_integer(packer, *value),
        SettingValue::Float(value) => packer.float(*value),
        SettingValue::Text(value) => packer.text(value),
        SettingValue::Map(entries) => {
            packer.map(entries.len());
            for (key, value) in entries {
                pack_integer(packer.text(key), *value);
            }
            packer
        }
    };
}

fn pack_integer(packer: &mut Packer, value: i128) -> &mut Packer {
    if let Ok(value) = u64::try_from(value) {
        packer.uint(value)
    } else if let Ok(value) = i64::try_from(value) {
        packer.int(value)
    } else {
        packer.ext(WIDE_INTEGER as i8, &value.to_le_bytes())
    }
}

/// Reads the settings; a later chunk's keys replace an earlier one's.
pub(super) fn read(chunk: &Chunk<'_>, context: &mut Context) -> Parse<()> {
    if !context.budget.spend(budget::rows(chunk.raw_len as u64, PLAIN_BYTE), chunk.end) {
        return Err(Fault::Wrong("more settings than a file of this length may hold"));
    }
    let payload = chunk.unpack(&mut context.unpacker)?;
    let mut values = BTreeMap::new();
    read_map(payload, &mut context.trace.warnings, |key, cursor| {
        let mut ahead = cursor.clone();
        let Some(value) = read_value(&mut ahead)? else { return Ok(false) };
        *cursor = ahead;
        values.insert(key.to_owned(), value);
        Ok(true)
    })?;
    context.trace.settings.values.extend(values);
    Ok(())
}

/// `None` for a value of a type that no setting has.
fn read_value(cursor: &mut Cursor<'_>) -> Parse<Option<SettingValue>> {
    let token = cursor.token()?;
    if let Some(value) = integer(token) {
        return Ok(Some(SettingValue::Int(value)));
    }
    Ok(match token {
        Token::Bool(value) => Some(SettingValue::Bool(value)),
        Token::Float(value) => Some(SettingValue::Float(value)),
        Token::Text(bytes) => Some(SettingValue::Text(String::from_utf8_lossy(bytes).into_owned())),
        Token::Map(length) => {
            let mut entries = BTreeMap::new();
            for _ in 0..length {
                let key = cursor.text()?.into_owned();
                let Some(value) = integer(cursor.token()?) else { return Ok(None) };
                entries.insert(key, value);
            }
            Some(SettingValue::Map(entries))
        }
        _ => None,
    })
}

fn integer(token: Token<'_>) -> Option<i128> {
    match token {
        Token::Uint(value) => Some(value.into()),
        Token::Int(value) => Some(value.into()),
        Token::Ext(WIDE_INTEGER, bytes) => Some(i128::from_le_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}
