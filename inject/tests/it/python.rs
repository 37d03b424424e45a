//! Python's frames, from the real interpreter of this machine.

use std::path::Path;

use crate::support::{Run, built, quietly};

/// Calls the stand-in from functions in functions, holding the interpreter (`PyDLL`), and from threads.
const SCRIPT: &str = r#"
import ctypes, gc, sys, threading

cuda = ctypes.PyDLL(sys.argv[1])
out = ctypes.c_uint64()

def inner(size):
    return cuda.cuMemAlloc_v2(ctypes.byref(out), ctypes.c_size_t(size))  # LINE inner

def outer(size):
    if size > 5:
        pass
    return inner(size)  # LINE outer

class Freed:
    def __del__(self):
        cuda.cuMemFree_v2(ctypes.c_uint64(0x7000))  # LINE del

cuda.cuInit(0)
for size in (1, 2, 3):
    outer(size)  # LINE module
thread = threading.Thread(target=outer, args=(4,))
thread.start()
thread.join()
try:
    raise ValueError("kept")
except ValueError as error:
    outer(5)
    assert str(error) == "kept" and sys.exc_info()[0] is ValueError
before = sys.getrefcount(inner.__code__)
for _ in range(1000):
    outer(6)
assert abs(sys.getrefcount(inner.__code__) - before) <= 1, (before, sys.getrefcount(inner.__code__))
assert gc.isenabled()
Freed()
eval("outer(7)")
last = Freed()
"#;

#[test]
fn python_frames_are_those_that_called() {
    let run = Run::new();
    let script = run.path("job.py");
    std::fs::write(&script, SCRIPT).expect("a script");
    let mut command = run.command(Path::new("python3"));
    command.arg(&script).arg(built().join("libcuda.so.1"));
    quietly(command);
    let trace = run.trace();
    assert!(trace.trailer.is_some());
    let file = script.to_string_lossy().into_owned();
    let line = |mark: &str| SCRIPT.lines().position(|line| line.contains(mark)).expect("a mark") + 1;
    let frame = |function: &str, mark: &str| format!("{function} {file}:{}", line(mark));
    let expected =
        [frame("inner", "LINE inner"), frame("outer", "LINE outer"), frame("<module>", "LINE module")];
    let of_size = |bytes: u64| {
        let row = trace.rows.iter().find(|row| row["bytes"] == bytes).expect("the call");
        (row, trace.python(row))
    };
    for bytes in [1, 2, 3] {
        assert_eq!(of_size(bytes).1, expected);
    }
    assert_eq!(of_size(1).0["python"], of_size(3).0["python"]);
    let in_thread = of_size(4);
    assert_eq!(in_thread.1[..2], expected[..2]);
    assert!(in_thread.1[2].starts_with("run ") && in_thread.0["thread"] != of_size(1).0["thread"]);
    assert_eq!(of_size(5).1.last(), Some(&frame("<module>", "    outer(5)")));
    assert_eq!(of_size(7).1[2], "<module> <string>:1");
    let frees: Vec<_> = trace.rows.iter().filter(|row| row["call"] == 2).collect();
    assert_eq!(trace.python(frees[0])[0], frame("__del__", "LINE del"));
    assert_eq!(trace.rows.iter().filter(|row| row["bytes"] == 6).count(), 1000);
    // The last object goes while the interpreter ends: the call is there, its frames need not be.
    assert_eq!(frees.len(), 2);
}
