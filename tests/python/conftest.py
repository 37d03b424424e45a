"""What the tests share: the package of the checkout unless one is installed, the analyzer, a fresh session."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
if not os.environ.get("MEMLAB_INSTALLED"):
    sys.path.insert(0, str(ROOT / "python"))

from memlab import gate, session, warn  # noqa: E402


@pytest.fixture(autouse=True)
def nothing_is_left_over():
    # A recording that a test leaves behind keeps its handlers, and the next one would take them for the job's own.
    handled = [getattr(signal, name) for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name)]
    handlers = [(number, signal.getsignal(number)) for number in handled]
    yield
    session.stop()
    session._current = None
    warn.forget()
    gate.forget()
    for number, handler in handlers:
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def analyzer():
    """Runs the analyzer; skips if there is none."""
    program = os.environ.get("MEMLAB_BINARY") or str(ROOT / "target" / "debug" / "memlab")
    if not os.path.exists(program):
        pytest.skip(f"no analyzer at {program}; set MEMLAB_BINARY")

    def run(*arguments):
        done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def python():
    """Runs a script in a process of its own, which finds the package and the stand-in."""

    def start(script, *arguments, **more):
        path = os.pathsep.join([str(HERE), *([] if os.environ.get("MEMLAB_INSTALLED") else [str(ROOT / "python")])])
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
        pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        command = [sys.executable, "-c", script, *map(str, arguments)]
        return subprocess.Popen(command, env={**environment, **more.pop("env", {})}, **pipes, **more)

    return start
