//! Arguments of `memlab export`.

use std::path::{Path, PathBuf};

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser as _};
use clap::{Args, ValueEnum, ValueHint};

use crate::analysis::Table;
use crate::export::Profile;

/// `memlab export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Snapshot or trace, plain, gzip or zstd; `-` is standard input. With --partition several, or folders
    #[arg(value_name = "TRACE", required = true, value_hint = ValueHint::FilePath, help_heading = "Input")]
    pub traces: Vec<PathBuf>,
    /// Write there: a folder for tables, else a file; `-` is standard output, for text
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::AnyPath, help_heading = "Output")]
    pub output: PathBuf,
    /// What to write [default: as OUT ends, parquet where it is a folder]
    #[arg(long, value_name = "FORMAT", value_enum, help_heading = "Output")]
    pub format: Option<FormatChoice>,
    /// Only this table; may be repeated [default: all]
    #[arg(long = "table", value_name = "TABLE", help_heading = "Output",
        value_parser = PossibleValuesParser::new(Table::ALL.map(Table::name)).try_map(|text| text.parse::<Table>()))]
    pub tables: Vec<Table>,
    /// Write the tables of many ranks as one dataset: OUT/job=NAME/rank=N/lines.parquet and so on
    #[arg(long, help_heading = "Output")]
    pub partition: bool,
    /// Name of the job in that dataset [default: the name of the folder that holds the ranks]
    #[arg(long, value_name = "NAME", requires = "partition", help_heading = "Output",
        value_parser = NonEmptyStringValueParser::new())]
    pub job: Option<String>,
    /// Replace files that exist; with --partition, ranks that the dataset has
    #[arg(short, long, help_heading = "Output")]
    pub force: bool,
    /// Only this device
    #[arg(long, value_name = "N", help_heading = "Analysis")]
    pub device: Option<u32>,
    /// Bytes that a profile of stacks shows: live at the `peak`, `total` (of all allocations), live at the `end`, at
    /// the last `oom`, or after the event of this number [default: peak; speedscope: peak and total]
    #[arg(long, value_name = "WHAT", value_parser = |text: &str| text.parse::<Profile>(), help_heading = "Analysis")]
    pub what: Option<Profile>,
}

impl ExportArgs {
    /// The only trace: the first, where there should be one.
    pub(crate) fn trace(&self) -> &Path {
        self.traces.first().map_or(Path::new(""), PathBuf::as_path)
    }
}

/// Value of `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatChoice {
    /// A folder of tables, for polars, pandas and DuckDB.
    Parquet,
    /// A folder of tables as text.
    Csv,
    /// Stacks as text, for flame graph tools (OUT ends in .folded).
    Folded,
    /// Stacks for speedscope (.speedscope.json).
    Speedscope,
    /// Stacks for `go tool pprof` (.pb.gz).
    Pprof,
    /// Counters and tracks for ui.perfetto.dev (.pftrace, .perfetto-trace).
    Perfetto,
    /// Counters over time as JSON, for chrome://tracing and Perfetto (.chrome.json, .trace.json).
    Chrome,
    /// The recording itself, for pytorch.org/memory_viz (.pickle, .pickle.gz, .pickle.zst).
    Snapshot,
}
