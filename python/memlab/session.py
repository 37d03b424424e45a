"""The recording of this process, if there is one: started once, stopped once.

Owns the only recorder, the order in which hooks go in and out, and what happens in a forked child. `__init__` and
`run` are its callers.
"""

import os
import sys
import threading

from . import facts, gate, modules, records, spawned, warn
from .backend import Torch, Unusable
from .observe import Observers
from .options import Options, file_name
from .recorder import Recorder
from .steps import Steps
from .version import VERSION
from .watch import when_imported


class Session:
    """A recorder with all that is hooked into the job for it."""

    def __init__(self, path, options, backend=None):
        self.options = options
        self.recorder = Recorder(file_name(path), options, backend, VERSION)
        self.steps = None
        self.observers = Observers(self.recorder, stop)
        self.observers.install(options.signals)
        if backend is not None:
            self._connect(backend)
        else:
            when_imported("torch", self._on_torch)
        self.recorder.start_thread()

    @warn.guarded
    def _on_torch(self, torch):
        """torch is there; CUDA may not be in use yet."""
        if self.recorder.owned() and self.recorder.backend is None:
            self._connect(Torch(torch), torch)

    def _connect(self, backend, torch=None):
        self.recorder.backend = backend
        try:
            backend.check()
        except Unusable as error:
            self.recorder.fault("unusable", f"nothing is recorded: {error}")
            return
        if torch is not None:
            self._install_hooks(torch)
        backend.when_ready(self._on_ready)

    def _install_hooks(self, torch):
        metadata = modules.metadata_of(torch) if self.options.modules else None
        if self.options.steps:
            self.steps = Steps(self.recorder, metadata)
            when_imported("torch.optim", lambda _: self.steps.install(torch))
        if self.options.modules:
            modules.install(torch, self.steps)

    @warn.guarded
    def _on_ready(self):
        """CUDA is in use from here on."""
        if self.recorder.owned():
            try:
                self.recorder.begin()
            finally:
                if self.recorder.recording:
                    self.recorder.backend.observe_oom(self.observers.on_oom)

    def end(self):
        """Stops everything and takes the hooks out."""
        modules.remove()
        if self.steps is not None:
            self.steps.leave()
            self.steps.remove()
        self.recorder.stop()
        self.observers.remove()


_current = None
_lock = threading.RLock()


def start(path, options, backend=None):
    """Starts the recording. None if one is running or the file cannot be written; both are said."""
    global _current
    with _lock:
        if _current is not None and _current.recorder.owned():
            warn.warn("nested", f"a recording to {_current.recorder.path} is running already; this one is left out")
            return None
        warn.forget()
        try:
            _current = Session(path, options, backend)
        except OSError as error:
            _current = None
            warn.warn("path", f"nothing is recorded: cannot write {os.fspath(path)}: {error.strerror or error}")
        return _current


def stop():
    """Ends the recording, if there is one."""
    global _current
    with _lock:
        session, _current = _current, None
    if session is not None and session.recorder.owned():
        session.end()


def current():
    """The running session, or None."""
    session = _current
    return session if session is not None and session.recorder.owned() else None


def step():
    """A training step ends here and the next begins."""
    session = current()
    if session is None:
        return
    if session.steps is None:
        session.steps = Steps(session.recorder, None)
    session.steps.told()


def mark(name):
    """Notes a moment by name."""
    session = current()
    if session is not None:
        session.recorder.mark_at(facts.now_us(), records.USER, str(name), records.MOMENT)


def dump():
    """Writes the state of the memory, names and holders now."""
    session = current()
    if session is not None:
        session.recorder.write_state()


def parse(values):
    """Options from keyword arguments."""
    return Options.of(values)


def _in_child():
    """After a fork: the parent records, the child does not."""
    global _current, _lock
    _lock = threading.RLock()
    gate.forget()
    session, _current = _current, None
    if session is not None:
        warn.forget()
        modules.remove()
        session.recorder.forget()


spawned.watch(lambda: current() is not None)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)

if sys.version_info < (3, 9):
    raise ImportError("memlab needs Python 3.9 or newer")
