//! Records, from within a CUDA program, every call that takes or gives back memory of the driver.
//!
//! The driver loads this library into any process that is started with `CUDA_INJECTION64_PATH` set to it, and calls
//! [`InitializeInjection`] before anything else happens. From then on CUPTI calls back around the driver's functions;
//! each call becomes a row of a trace (docs/trace-format.md, "Driver"), with the stacks of the calling thread.
//! `memlab record` sets it up, docs/driver.md says what is seen and what is not.
//!
//! What must hold: no call's result is ever changed; a fault of the recorder ends the recording with one message; the
//! library exports one symbol of its own, and links neither CUDA, CUPTI nor Python.

// The linker's and the system's interfaces are Linux's; elsewhere the library is empty.
#![cfg(target_os = "linux")]

mod call;
mod cupti;
mod find;
mod frame_pointer;
mod hook;
mod memo;
mod modules;
mod native_table;
mod nvml;
mod nvml_start;
mod output;
mod own_memory;
mod own_pipe;
mod own_time;
mod params;
mod process;
mod progress;
mod python;
mod python_api;
mod python_layout;
mod python_memory;
mod python_table;
mod readings;
mod recall;
mod recorder;
mod settings;
mod thread;
mod unwind;
mod waiting;
mod walk;
mod wire;
mod writer;

// The packing of values, columns and costs is the analyzer's: the same files, so that both cannot differ.
#[path = "../../src/format/budget.rs"]
#[allow(dead_code)]
mod budget;
#[path = "../../src/format/column.rs"]
#[allow(dead_code)]
mod column;
#[path = "../../src/format/cursor.rs"]
#[allow(dead_code)]
mod cursor;
#[path = "../../src/format/packer.rs"]
#[allow(dead_code)]
mod packer;

use std::ffi::c_int;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

pub use call::{Call, NO_DEVICE, Seen};
pub use hook::Interposed;

use hook::{Hook, guarded};
use recorder::{close, current, forget, say};

/// Whether interposed functions are in the process.
static CAN_INTERPOSE: AtomicBool = AtomicBool::new(false);

/// Where the CUDA driver enters, once and before any other call: see `CUDA_INJECTION64_PATH`. Answers 1: the driver may
/// go on, whatever happened here.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    guarded(start);
    1
}

/// Tells the recorder that functions are interposed: where CUPTI cannot be used, their calls count.
pub fn interpose() {
    CAN_INTERPOSE.store(true, Ordering::Relaxed);
    guarded(|| {
        prepare();
        Hook::Preload.install();
    });
}

/// Paths of the files in the process whose name begins with `prefix`.
pub fn loaded_libraries(prefix: &str) -> Vec<std::path::PathBuf> {
    modules::Loaded::now().named(prefix).cloned().collect()
}

fn start() {
    static ONCE: Once = Once::new();
    prepare();
    ONCE.call_once(|| {
        let can_interpose = CAN_INTERPOSE.load(Ordering::Relaxed);
        let attached =
            if settings::wants_preload() { Err("it was not asked for".to_owned()) } else { cupti::attach() };
        match attached {
            Ok(hook) => {
                hook.install();
                nvml_start::begin();
            }
            Err(_) if can_interpose && settings::wants_preload() => {}
            Err(reason) if can_interpose => {
                say(&format!(
                    "CUPTI cannot be used ({reason}): only calls of libcudart and libcuda by name are recorded"
                ));
            }
            Err(reason) => {
                let text = format!("no driver call is recorded: CUPTI cannot be used ({reason})");
                say(&format!("{text}; MEMLAB_CUPTI names a libcupti to use"));
                if let Some(recorder) = current() {
                    recorder.fault(text);
                }
            }
        }
    });
}

/// What is needed once, before the first call.
fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // One message per fault, which `guarded` gives.
        std::panic::set_hook(Box::new(|_| {}));
        // SAFETY: the handler touches atomics alone.
        unsafe { libc::pthread_atfork(None, None, Some(forget_at_fork)) };
    });
}

unsafe extern "C" fn forget_at_fork() {
    forget();
}

/// Runs when the process ends, behind the program's own exit handlers and the destructors of its objects: what they
/// free is still recorded.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = at_end;

extern "C" fn at_end() {
    guarded(close);
}
