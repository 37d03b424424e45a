"""Has the CUDA driver load the recorder of driver calls into this process: `memlab run --driver`.

Owns finding the library and the environment that it reads (`inject/src/settings.rs`). It must be set before CUDA is
first used. What the library records goes to a file of its own, beside the emitter's.
"""

import os
import sys
import time

_LIBRARY = "libmemlab_inject.so"
#: How every trace begins.
_TRACE = b"\x97\xa6memlab\0"
#: What the driver reads when it starts.
_INJECTION = "CUDA_INJECTION64_PATH"


def beside(path):
    """`NAME.driver.msgpack` for `NAME.msgpack`."""
    stem, suffix = os.path.splitext(os.fspath(path))
    return f"{stem}.driver{suffix}"


def find():
    """Path of the library, or None: where `$MEMLAB_INJECT` says, in this package, in a checkout."""
    named = os.environ.get("MEMLAB_INJECT")
    here = os.path.dirname(os.path.abspath(__file__))
    if named:
        folders = [named if os.path.isdir(named) else os.path.dirname(named)]
    else:
        target = os.path.join(here, "..", "..", "target")
        folders = [here] + [os.path.join(target, build) for build in ("release", "debug")]
    paths = [os.path.abspath(os.path.join(folder, _LIBRARY)) for folder in folders]
    return next((path for path in paths if os.path.isfile(path)), None)


def prepare(path):
    """Sets the environment for a recording beside the one at `path`. Exits with 2 where that cannot be."""
    library = find()
    if library is None:
        _refuse(f"--driver needs {_LIBRARY}, which is not installed; MEMLAB_INJECT names its folder")
    taken = os.environ.get(_INJECTION)
    if taken and os.path.basename(taken) != _LIBRARY:
        _refuse(f"--driver cannot be used: {_INJECTION} names another tool, {taken}")
    output = os.path.abspath(beside(path))
    _remove_earlier(output)
    os.environ[_INJECTION] = library
    os.environ["MEMLAB_DRIVER_OUTPUT"] = output
    os.environ["MEMLAB_DRIVER_HOOK"] = "cupti"
    os.environ["MEMLAB_DRIVER_SINCE"] = str(time.time_ns() // 1000)


def _remove_earlier(path):
    """Removes a recording from before; any other file is not ours to remove."""
    try:
        with open(path, "rb") as file:
            is_trace = file.read(len(_TRACE)) == _TRACE
        if is_trace:
            os.unlink(path)
    except OSError:
        return
    if not is_trace:
        _refuse(f"{path} is there already and is no trace")


def _refuse(text):
    sys.stderr.write(f"memlab: {text}\n")
    raise SystemExit(2)
