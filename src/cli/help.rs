//! Texts of `--help` that are longer than a line.

use std::sync::LazyLock;

use crate::format;

pub(crate) const ABOUT: &str =
    "GPU memory, explained: which line held it, how much is fragmentation, and why it ran out";

pub(crate) const LONG_ABOUT: &str = "\
GPU memory, explained. memlab reads a PyTorch memory snapshot (torch.cuda.memory._dump_snapshot) or its own \
trace, rebuilds every allocation to the byte, and says which lines of your code held the memory at the peak, \
how much of the reserved memory is fragmentation, and why an out-of-memory error happened. It needs no GPU, \
executes nothing from the file and sends nothing anywhere.";

pub(crate) const EXAMPLES: &str = "\
Examples:
  memlab analyze snapshot.pickle              a summary on one screen
  memlab analyze snapshot.pickle -o report    report.html, report.md, report.json and pictures
  memlab lines snapshot.pickle --top 5        the lines that held most memory at the peak
  memlab convert snapshot.pickle trace.msgpack";

const CODES: &str = "\
Exit codes:
  0  done; also when the reader of a pipe closes it early
  1  a gate of `memlab check` does not hold
  2  an error: usage, or a file that could not be read or written; whatever could be done is done
  3  the trace does not show enough to say whether a gate of `memlab check` holds";

const ENVIRONMENT: &str = "\
Environment:
  NO_COLOR                     no colour, unless --color says otherwise
  FORCE_COLOR, CLICOLOR_FORCE  colour even into pipes, unless NO_COLOR is set";

pub(crate) const ANALYZE: &str = "\
Examples:
  memlab analyze snapshot.pickle
  memlab analyze trace.msgpack -o report --force
  memlab analyze rank*.pickle --json | jq '.traces[].devices[].peak'
  memlab analyze runs/42 -o report                        all ranks of a job: ranks.html, and a report each
  memlab analyze 'runs/*/mem.pickle' --rank-from 'runs/n(\\d+)'
  zcat snapshot.pickle.gz | memlab analyze - --group-by function";

pub(crate) const CHECK: &str = "\
Examples:
  memlab check trace.msgpack                        no finding may be an error
  memlab check trace.msgpack --max-peak 12GiB --max-growth 1MiB/step
  memlab check trace.msgpack --baseline main/report.json --tolerance 3
  memlab check trace.msgpack --fail-on growth,fragmentation --junit memory.xml

Exit codes:
  0  every gate holds
  1  at least one does not: one line each
  2  an error
  3  none fails, but the trace does not show enough to decide every one of them";

pub(crate) const CONVERT: &str = "\
Examples:
  memlab convert snapshot.pickle trace.msgpack
  memlab convert trace.msgpack snapshot.pickle.gz    for pytorch.org/memory_viz
  zcat snapshot.pickle.gz | memlab convert - trace.msgpack";

pub(crate) const DIFF: &str = "\
Examples:
  memlab diff before.pickle after.pickle
  memlab diff main/report.json trace.msgpack --fail-on-growth 5%   for continuous integration
  memlab diff before.pickle after.pickle -o diff.html              both timelines on one axis
  memlab diff before.pickle after.pickle --json | jq '.devices[].lines[:5]'

Exit codes:
  0  compared, whether anything differs or not
  1  a peak grew by more than --fail-on-growth allows: one line on stderr
  2  an error
  3  no peak is seen to grow by more, but a recording does not show enough to be sure";

pub(crate) const EXPLAIN: &str = "\
Examples:
  memlab explain                    all rules, one line each
  memlab explain fragmentation
  memlab explain growth --json | jq -r '.rules[0].remedy'";

pub(crate) const EXPORT: &str = "\
Examples:
  memlab export snapshot.pickle -o tables                        Parquet, one file per table
  memlab export trace.msgpack -o tables --format csv --table lines --table steps
  memlab export run7/rank*.msgpack -o fleet --partition          one dataset of many ranks
  memlab export snapshot.pickle -o run.folded --what total       for flamegraph.pl, inferno
  memlab export snapshot.pickle -o run.speedscope.json           for speedscope.app
  memlab export trace.msgpack -o run.pb.gz                       go tool pprof -http : run.pb.gz
  memlab export trace.msgpack -o run.pftrace                     for ui.perfetto.dev
  memlab export trace.msgpack -o run.chrome.json                 for chrome://tracing
  memlab export trace.msgpack -o run.pickle                      for pytorch.org/memory_viz
  memlab export trace.msgpack -o - --format folded | inferno-flamegraph > run.svg";

pub(crate) const INFO: &str = "\
Examples:
  memlab info snapshot.pickle
  memlab info *.pickle --json | jq '.traces[] | {path, events}'
  memlab info --verify trace.msgpack             reads every byte and decodes it

Counts the events of a trace by what its chunks state of them. Checksums of a file over 16 MiB are
then not all computed, and `not checked` says so: damage in the events shows with --verify, or in
any command that reads them. Snapshots have no such index and are read whole.";

pub(crate) const REDUCE: &str = "\
Keeps the report, the curves, and what was live at both peaks, at the last failure and at the end.
The events are left out: what needs them (whatif, export, summary, convert, --from, --to, --group-by)
refuses the small file and names the original. docs/reduce.md says more.

Examples:
  memlab reduce trace.msgpack -o small.msgpack
  memlab analyze small.msgpack                     the same figures
  memlab info small.msgpack                        what it was reduced from";

pub(crate) const LINES: &str = "\
Examples:
  memlab lines snapshot.pickle --top 10
  memlab lines snapshot.pickle --group-by module
  memlab lines snapshot.pickle --csv > lines.csv";

pub(crate) const OOM: &str = "\
Examples:
  memlab oom train.log
  memlab oom slurm-*.out rank*.log.gz --json | jq '.messages[] | {log, line, verdict}'
  kubectl logs trainer-0 | memlab oom -

A log without any such message is no error; it is said on stderr.";

pub(crate) const REPORT: &str = "\
Examples:
  memlab report snapshot.pickle
  memlab report trace.msgpack -o run7.html --force
  memlab report trace.msgpack --source src     with the code around each line, from files below src/
  memlab report trace.msgpack --detail 300KiB  a small page: every event only around what matters

The page is one file: it loads nothing and can be attached to a ticket.";

pub(crate) const RECORD: &str = "\
Examples:
  memlab record -- ./simulation --steps 3
  memlab record -o job.msgpack -- python train.py
  memlab record -o 'job-{rank}.msgpack' -- torchrun --nproc-per-node 8 train.py
  memlab run --driver train.py                 the CUDA allocator's events too, in a file beside

The first process that makes a recorded call writes FILE, each further one a file with its process id in the name.
$MEMLAB_CUPTI names the libcupti to use, $MEMLAB_INJECT the folder of the recorder's libraries.";

pub(crate) const RUN: &str = "\
Examples:
  memlab run train.py --epochs 3
  memlab run -o 'run-{rank}.msgpack' -m package.train
  torchrun --nproc-per-node 8 -m memlab run train.py
  memlab run --driver train.py                 the driver's calls too, in memlab-0.driver.msgpack
  python3 -m memlab run --help                 all options; $PYTHON chooses the interpreter";

pub(crate) const SUMMARY: &str = "\
Examples:
  memlab summary snapshot.pickle
  memlab summary snapshot.pickle --at 1200 --device 0
  memlab summary snapshot.pickle --json | jq '.devices[0].stats[\"reserved_bytes.all.peak\"]'";

pub(crate) const WHATIF: &str = "\
Examples:
  memlab whatif snapshot.pickle
  memlab whatif snapshot.pickle --set expandable_segments:True --set max_split_size_mb:128
  memlab whatif snapshot.pickle --memory 24GiB           would it fit, and into how little
  memlab whatif snapshot.pickle --scale model.py:88=0.5  half of what that line allocates
  memlab whatif snapshot.pickle -o answer                whatif.md, whatif.json, whatif.svg";

pub(crate) const COMPLETIONS: &str = "\
Examples:
  memlab completions bash > ~/.local/share/bash-completion/completions/memlab
  memlab completions fish > ~/.config/fish/completions/memlab.fish";

pub(crate) const MAN: &str = "\
Examples:
  memlab man > memlab.1
  memlab man | man -l -";

/// What follows the options in `memlab --help`.
pub(crate) fn long_notes() -> String {
    format!("{EXAMPLES}\n\n{CODES}\n\n{ENVIRONMENT}")
}

/// `0.1.0 (trace format 1)`.
pub(crate) fn version() -> &'static str {
    static VERSION: LazyLock<String> =
        LazyLock::new(|| format!("{} (trace format {})", env!("CARGO_PKG_VERSION"), format::VERSION.0));
    &VERSION
}

/// The name under which memlab signs what it writes: `memlab 0.1.0`.
pub(crate) const TOOL: &str = concat!("memlab ", env!("CARGO_PKG_VERSION"));
