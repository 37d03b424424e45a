//! Writes tables as Parquet and CSV.
//!
//! Owns the two formats and their settings. A table comes in pieces, each of which is written at once: a long one
//! never lies in memory as a whole. Does not open files and does not know which table it writes.
//! Texts are written as the trace has them: a CSV cell that begins with `=`, `+`, `-` or `@` comes from the
//! trace as it is and is not defused, since that would change data. Spreadsheets should import such files
//! as text.

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

use polars::prelude::{
    CsvWriter, KeyValueMetadata, ParquetCompression, ParquetWriter, PolarsError, SerWriter,
};

use crate::error::{Error, Result};

use super::{Sink, TABLES_SCHEMA, TableSchema};

/// A file format for tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// Apache Parquet, zstd-compressed, with statistics.
    Parquet,
    /// Comma-separated values: a header line, nulls empty, texts quoted where needed, line feeds.
    Csv,
}

impl TableFormat {
    /// Both formats.
    pub const ALL: [Self; 2] = [Self::Parquet, Self::Csv];

    /// The word on the command line, and the file extension.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
        }
    }
}

impl fmt::Display for TableFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for TableFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == text)
            .ok_or_else(|| format!("`{text}` is no table format; use parquet or csv"))
    }
}

/// What makes a table: it hands the pieces to the sink, in order.
pub type Fill<'f> = dyn FnMut(&mut Sink<'_>) -> Result<()> + 'f;

/// Writes the table of `schema` that `fill` makes to `output`. The same table gives the same bytes, as long as it
/// comes in the same pieces: each is a Parquet row group.
///
/// # Errors
/// When `output` or `fill` fails, or the table engine refuses the table, which would be a fault of memlab.
pub fn write_table(
    schema: &TableSchema,
    format: TableFormat,
    output: &mut dyn Write,
    fill: &mut Fill<'_>,
) -> Result<()> {
    let mut output = Noting { output, failure: None };
    let written = match format {
        TableFormat::Parquet => parquet(schema, &mut output, fill),
        TableFormat::Csv => csv(schema, &mut output, fill),
    };
    if let Some(failure) = output.failure {
        return Err(failure.into());
    }
    written?;
    output.output.flush()?;
    Ok(())
}

fn parquet(schema: &TableSchema, output: &mut Noting<'_>, fill: &mut Fill<'_>) -> Result<()> {
    let refused = |error: PolarsError| Error::Table { table: schema.name, what: error.to_string() };
    let facts = vec![
        ("memlab.table".to_owned(), schema.name.to_owned()),
        ("memlab.tables_schema".to_owned(), TABLES_SCHEMA.to_string()),
    ];
    let mut writer = ParquetWriter::new(output)
        .with_compression(ParquetCompression::Zstd(None))
        .with_key_value_metadata(Some(KeyValueMetadata::from_static(facts)))
        .batched(&schema.engine_schema())
        .map_err(refused)?;
    fill(&mut |piece| writer.write_batch(&piece).map_err(refused))?;
    writer.finish().map_err(refused)?;
    Ok(())
}

fn csv(schema: &TableSchema, output: &mut Noting<'_>, fill: &mut Fill<'_>) -> Result<()> {
    let refused = |error: PolarsError| Error::Table { table: schema.name, what: error.to_string() };
    let mut writer = CsvWriter::new(output).batched(&schema.engine_schema()).map_err(refused)?;
    fill(&mut |piece| writer.write_batch(&piece).map_err(refused))?;
    writer.finish().map_err(refused)
}

/// Keeps the first failure of `output` as it was. The engine turns it into text, but a closed pipe must be
/// told from a full disk.
struct Noting<'a> {
    output: &'a mut dyn Write,
    failure: Option<io::Error>,
}

impl Noting<'_> {
    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let kind = error.kind();
            self.failure.get_or_insert(error);
            kind.into()
        })
    }
}

impl Write for Noting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.output.write(bytes) {
            // Callers retry these; they are no failures.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            result => self.note(result),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.output.flush();
        self.note(result)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use polars::prelude::{Column, DataFrame, ParquetReader, SerReader};

    use super::super::ColumnType;
    use super::super::schemas::FINDINGS;
    use super::*;

    /// A row of every kind of cell, and one of nulls where they may be.
    fn sample() -> DataFrame {
        let column = |schema: &super::super::ColumnSchema| {
            let known = !schema.nullable;
            match schema.kind {
                ColumnType::U32 => Column::new(schema.name.into(), [7_u32, 8]),
                ColumnType::U64 => Column::new(schema.name.into(), [Some(u64::MAX), known.then_some(1)]),
                _ => Column::new(schema.name.into(), [Some("a,\"b\"\nc"), known.then_some("=1+1")]),
            }
        };
        DataFrame::new_infer_height(FINDINGS.columns.iter().map(column).collect()).unwrap()
    }

    fn written(format: TableFormat) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_table(&FINDINGS, format, &mut bytes, &mut |sink| sink(sample())).unwrap();
        bytes
    }

    #[test]
    fn csv_keeps_texts_and_leaves_nulls_empty() {
        let text = String::from_utf8(written(TableFormat::Csv)).unwrap();
        let (odd, max) = ("\"a,\"\"b\"\"\nc\"", u64::MAX);
        let first = format!("7,7,{odd},{odd},{odd},{max},{odd},{max},{odd},{max},{odd},{odd},{odd}");
        let second = "8,8,=1+1,=1+1,=1+1,1,,,,,=1+1,=1+1,=1+1";
        assert_eq!(text.split_once('\n').unwrap().1, format!("{first}\n{second}\n"));
    }

    #[test]
    fn parquet_reads_back_as_it_was_and_repeats_itself() {
        let bytes = written(TableFormat::Parquet);
        let read = ParquetReader::new(io::Cursor::new(&bytes)).finish().unwrap();
        assert!(read.equals_missing(&sample()), "{read}");
        assert_eq!(bytes, written(TableFormat::Parquet));
    }

    #[test]
    fn a_table_without_pieces_has_its_columns() {
        for format in TableFormat::ALL {
            let mut bytes = Vec::new();
            write_table(&FINDINGS, format, &mut bytes, &mut |_| Ok(())).unwrap();
            let names: Vec<String> = match format {
                TableFormat::Csv => {
                    String::from_utf8(bytes).unwrap().trim().split(',').map(Into::into).collect()
                }
                TableFormat::Parquet => {
                    let read = ParquetReader::new(io::Cursor::new(&bytes)).finish().unwrap();
                    read.get_column_names_owned().iter().map(ToString::to_string).collect()
                }
            };
            let promised: Vec<_> = FINDINGS.columns.iter().map(|column| column.name).collect();
            assert_eq!(names, promised, "{format}");
        }
    }

    #[test]
    fn a_closed_pipe_is_told_apart() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        for format in TableFormat::ALL {
            let error = write_table(&FINDINGS, format, &mut Closed, &mut |sink| sink(sample())).unwrap_err();
            let Error::Io(error) = error else { panic!("{format}: {error}") };
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "{format}");
        }
    }
}
