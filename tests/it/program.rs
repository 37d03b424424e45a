//! The program itself, with what it cost: exit code, output, peak memory.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a run may take before the test gives up on it.
const PATIENCE: Duration = Duration::from_mins(2);

/// What a run of the program did.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Most resident memory seen, file-backed pages included; 0 where the system has no `/proc`.
    pub(crate) peak_bytes: u64,
}

/// Runs memlab with `arguments`.
pub(crate) fn run(arguments: &[&str]) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_memlab"))
        .args(arguments)
        .env_remove("NO_COLOR")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was built for this test");
    let (mut out, mut err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let stdout = thread::spawn(move || read_all(&mut out));
    let stderr = thread::spawn(move || read_all(&mut err));
    let (started, mut peak_bytes) = (Instant::now(), 0);
    let code = loop {
        // The high-water mark only grows, so the last look before the end counts.
        peak_bytes = resident_peak(child.id()).unwrap_or(0).max(peak_bytes);
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            break status.code();
        }
        if started.elapsed() > PATIENCE {
            child.kill().expect("a child can be ended");
            panic!("memlab {arguments:?} still runs after {PATIENCE:?}");
        }
        thread::sleep(Duration::from_millis(1));
    };
    let text = |reader: thread::JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&reader.join().expect("the reader ends with the pipe")).into_owned()
    };
    Run { code, stdout: text(stdout), stderr: text(stderr), peak_bytes }
}

fn read_all(from: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).expect("a pipe can be read");
    bytes
}

/// `VmHWM` of a process, in bytes.
fn resident_peak(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}
