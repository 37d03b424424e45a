//! What an exported table promises: the name, type, unit and meaning of every column.
//!
//! Owns the vocabulary of schemas and the check that a frame keeps its own. The schema of each table stands
//! beside the code that fills it; `docs/tables.md` is written from them (`page`).

use polars::prelude::{Column, DataFrame, DataType, Schema};

use crate::error::{Error, Result};

/// Version of the tables. It is raised when a column is renamed, removed or changes its meaning; a new table or
/// a new column at the end leaves it as it is.
pub const TABLES_SCHEMA: u32 = 1;

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 64 bits.
    I64,
    /// Floating point, 64 bits.
    F64,
    /// True or false.
    Bool,
    /// UTF-8.
    Text,
}

impl ColumnType {
    /// Its name in the documentation.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F64 => "f64",
            Self::Bool => "bool",
            Self::Text => "text",
        }
    }

    fn engine_type(self) -> DataType {
        match self {
            Self::U32 => DataType::UInt32,
            Self::U64 => DataType::UInt64,
            Self::I64 => DataType::Int64,
            Self::F64 => DataType::Float64,
            Self::Bool => DataType::Boolean,
            Self::Text => DataType::String,
        }
    }
}

/// One column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnSchema {
    /// Name.
    pub name: &'static str,
    /// Type.
    pub kind: ColumnType,
    /// What a value counts: `bytes`, `us`, `event`; empty where that does not apply.
    pub unit: &'static str,
    /// Whether it may be null.
    pub nullable: bool,
    /// What it says, and what a null says.
    pub meaning: &'static str,
}

impl ColumnSchema {
    /// The same column, which may be null.
    const fn nullable(self) -> Self {
        Self { nullable: true, ..self }
    }
}

const fn column(
    name: &'static str,
    kind: ColumnType,
    unit: &'static str,
    meaning: &'static str,
) -> ColumnSchema {
    ColumnSchema { name, kind, unit, nullable: false, meaning }
}

/// Short forms, so that the list of a table's columns reads like a table.
pub(super) mod columns {
    use super::{ColumnSchema, ColumnType, column};

    /// The first column of every table.
    pub(in super::super) const DEVICE: ColumnSchema = number("device", "index of the GPU");

    pub(in super::super) const fn number(name: &'static str, meaning: &'static str) -> ColumnSchema {
        column(name, ColumnType::U32, "", meaning)
    }

    pub(in super::super) const fn number_or_null(name: &'static str, meaning: &'static str) -> ColumnSchema {
        number(name, meaning).nullable()
    }

    pub(in super::super) const fn count(name: &'static str, meaning: &'static str) -> ColumnSchema {
        column(name, ColumnType::U64, "", meaning)
    }

    pub(in super::super) const fn count_or_null(name: &'static str, meaning: &'static str) -> ColumnSchema {
        count(name, meaning).nullable()
    }

    pub(in super::super) const fn bytes(name: &'static str, meaning: &'static str) -> ColumnSchema {
        column(name, ColumnType::U64, "bytes", meaning)
    }

    pub(in super::super) const fn bytes_or_null(name: &'static str, meaning: &'static str) -> ColumnSchema {
        bytes(name, meaning).nullable()
    }

    pub(in super::super) const fn change(name: &'static str, meaning: &'static str) -> ColumnSchema {
        column(name, ColumnType::I64, "bytes", meaning)
    }

    /// An event's number: there is not always one.
    pub(in super::super) const fn event(name: &'static str, meaning: &'static str) -> ColumnSchema {
        column(name, ColumnType::U32, "event", meaning).nullable()
    }

    /// Microseconds: they are not always recorded.
    pub(in super::super) const fn time(name: &'static str, meaning: &'static str) -> ColumnSchema {
        column(name, ColumnType::I64, "us", meaning).nullable()
    }

    pub(in super::super) const fn ratio(name: &'static str, meaning: &'static str) -> ColumnSchema {
        column(name, ColumnType::F64, "", meaning)
    }

    pub(in super::super) const fn flag(name: &'static str, meaning: &'static str) -> ColumnSchema {
        column(name, ColumnType::Bool, "", meaning)
    }

    pub(in super::super) const fn flag_or_null(name: &'static str, meaning: &'static str) -> ColumnSchema {
        flag(name, meaning).nullable()
    }

    pub(in super::super) const fn text(name: &'static str, meaning: &'static str) -> ColumnSchema {
        column(name, ColumnType::Text, "", meaning)
    }

    pub(in super::super) const fn text_or_null(name: &'static str, meaning: &'static str) -> ColumnSchema {
        text(name, meaning).nullable()
    }

    pub(in super::super) const STACK: ColumnSchema =
        number_or_null("stack", "number of the stack, see `stacks`; null when none was recorded");
    pub(in super::super) const STACK_HASH: ColumnSchema =
        text_or_null("stack_hash", "hash of that stack's text; the same in every file");
    pub(in super::super) const FILE: ColumnSchema =
        text_or_null("file", "file of the line; null without a line");
    pub(in super::super) const LINE: ColumnSchema = count_or_null("line", "its number; null when not known");
    pub(in super::super) const FUNCTION: ColumnSchema = text_or_null("function", "its function");
}

/// One table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSchema {
    /// Name: the word on the command line and the stem of the file.
    pub name: &'static str,
    /// What a row is, and in which order rows come.
    pub meaning: &'static str,
    /// The columns in order.
    pub columns: &'static [ColumnSchema],
}

impl TableSchema {
    /// The table's columns as a frame.
    ///
    /// # Errors
    /// When they are not what the schema says, which would be a fault of memlab.
    pub(super) fn frame(&self, columns: Vec<Column>) -> Result<DataFrame> {
        let fault = |what| Error::Table { table: self.name, what };
        self.check(&columns).map_err(fault)?;
        DataFrame::new_infer_height(columns).map_err(|error| fault(error.to_string()))
    }

    /// Names, order, types and nulls.
    fn check(&self, columns: &[Column]) -> Result<(), String> {
        let names: Vec<&str> = columns.iter().map(|column| column.name().as_str()).collect();
        let promised: Vec<&str> = self.columns.iter().map(|column| column.name).collect();
        if names != promised {
            return Err(format!("columns {names:?} are not those of the schema, {promised:?}"));
        }
        for (column, schema) in columns.iter().zip(self.columns) {
            if *column.dtype() != schema.kind.engine_type() {
                return Err(format!("column {} is of type {}", schema.name, column.dtype()));
            }
            if !schema.nullable && column.null_count() > 0 {
                return Err(format!("column {} has nulls", schema.name));
            }
        }
        Ok(())
    }

    /// As the table engine wants it.
    pub(in crate::tables) fn engine_schema(&self) -> Schema {
        self.columns.iter().map(|column| (column.name.into(), column.kind.engine_type())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::columns::{DEVICE, bytes_or_null, text};
    use super::*;

    const SCHEMA: TableSchema = TableSchema {
        name: "sample",
        meaning: "",
        columns: &[DEVICE, bytes_or_null("bytes", ""), text("word", "")],
    };

    fn built(device: Column, bytes: Column, word: Column) -> Result<DataFrame> {
        SCHEMA.frame(vec![device, bytes, word])
    }

    #[test]
    fn a_frame_that_breaks_its_schema_is_refused() {
        let device = || Column::new("device".into(), [0_u32]);
        let bytes = || Column::new("bytes".into(), [None::<u64>]);
        let word = || Column::new("word".into(), ["a"]);
        assert!(built(device(), bytes(), word()).is_ok());
        let refused = [
            built(bytes(), device(), word()),
            built(Column::new("device".into(), [0_u64]), bytes(), word()),
            built(device(), bytes(), Column::new("word".into(), [None::<&str>])),
        ];
        assert!(refused.iter().all(|frame| matches!(frame, Err(Error::Table { table: "sample", .. }))));
    }
}
