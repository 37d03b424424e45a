//! Writes tables as Parquet and CSV.
//!
//! Owns the two formats and their settings. Does not open files and does not know which table it writes.
//! Texts are written as the trace has them: a CSV cell that begins with `=`, `+`, `-` or `@` comes from the
//! trace as it is and is not defused, since that would change data. Spreadsheets should import such files
//! as text.

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

use polars::prelude::{CsvWriter, DataFrame, ParquetCompression, ParquetWriter, SerWriter};

use crate::error::{Error, Result};

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

/// Rows of a Parquet row group.
const ROW_GROUP: usize = 1 << 18;

/// Writes `frame` to `output`. The same frame gives the same bytes.
///
/// # Errors
/// When `output` fails, or the table engine refuses the table, which would be a fault of memlab.
pub fn write_frame(frame: &mut DataFrame, format: TableFormat, output: &mut dyn Write) -> Result<()> {
    let mut output = Noting { output, failure: None };
    let written = match format {
        TableFormat::Parquet => ParquetWriter::new(&mut output)
            .with_compression(ParquetCompression::Zstd(None))
            .with_row_group_size(Some(ROW_GROUP))
            .finish(frame)
            .map(|_bytes| ()),
        TableFormat::Csv => CsvWriter::new(&mut output).finish(frame),
    };
    if let Some(failure) = output.failure {
        return Err(failure.into());
    }
    written.map_err(|error| Error::Table { table: "output", what: error.to_string() })?;
    output.output.flush()?;
    Ok(())
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

    use polars::prelude::{ParquetReader, SerReader, df};

    use super::*;

    fn sample() -> DataFrame {
        df!(
            "address" => [u64::MAX, 1],
            "event" => [Some(7_u32), None],
            "file" => [Some("a,\"b\"\nc"), Some("=1+1")],
        )
        .unwrap()
    }

    fn written(format: TableFormat) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_frame(&mut sample(), format, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn csv_keeps_texts_and_leaves_nulls_empty() {
        let text = String::from_utf8(written(TableFormat::Csv)).unwrap();
        assert_eq!(text, "address,event,file\n18446744073709551615,7,\"a,\"\"b\"\"\nc\"\n1,,=1+1\n");
    }

    #[test]
    fn parquet_reads_back_as_it_was_and_repeats_itself() {
        let bytes = written(TableFormat::Parquet);
        let read = ParquetReader::new(io::Cursor::new(&bytes)).finish().unwrap();
        assert!(read.equals_missing(&sample()), "{read}");
        assert_eq!(bytes, written(TableFormat::Parquet));
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
            let error = write_frame(&mut sample(), format, &mut Closed).unwrap_err();
            let Error::Io(error) = error else { panic!("{format}: {error}") };
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "{format}");
        }
    }
}
