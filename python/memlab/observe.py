"""The moments at which a job may end, and what is written then.

Owns the OOM observer, the exception hooks, the handlers of SIGTERM and SIGUSR1, exit and fork. Each does its part
and hands on to whoever was there before. None raises, none waits without a limit.
"""

import atexit
import os
import signal
import sys
import threading

from . import facts, gate, records, warn

_SIGNALS = [name for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name)]


class Observers:
    """What is hooked for one recording. `end` is called when the process ends by itself."""

    def __init__(self, recorder, end):
        self._recorder, self._end = recorder, end
        self._previous_signals = {}
        self._excepthook = self._thread_excepthook = None
        self._oom_pending = False

    def install(self, with_signals):
        """Hooks in everything but the OOM observer, which needs CUDA."""
        self._excepthook, sys.excepthook = sys.excepthook, self._on_exception
        self._thread_excepthook, threading.excepthook = threading.excepthook, self._on_thread_exception
        atexit.register(self._on_exit)
        if with_signals:
            self._install_signals()

    def remove(self):
        """Takes back what is still ours."""
        if sys.excepthook == self._on_exception:
            sys.excepthook = self._excepthook
        if threading.excepthook == self._on_thread_exception:
            threading.excepthook = self._thread_excepthook
        atexit.unregister(self._on_exit)
        if threading.current_thread() is threading.main_thread():
            for number, previous in self._previous_signals.items():
                if signal.getsignal(number) == self._on_signal:
                    signal.signal(number, previous)
        self._previous_signals = {}

    # --- out of memory

    def on_oom(self, device, requested, limit, free):
        """Called by the allocator on the failing thread, before the exception is raised."""
        try:
            if self._recorder.owned():
                self._recorder.mark(records.USER, f"out of memory on device {device}: {requested} bytes")
                self._recorder.note_cap(device, limit)
                self._recorder.write_state()
        except BaseException as error:  # an exception here would take the place of the OOM
            warn.warn("oom", f"what is known of the out-of-memory error was not written: {type(error).__name__}: {error}")

    # --- exceptions and exit

    def _on_exception(self, kind, value, traceback):
        self._note_exception(kind)
        (self._excepthook or sys.__excepthook__)(kind, value, traceback)

    def _on_thread_exception(self, found):
        self._note_exception(found.exc_type)
        (self._thread_excepthook or threading.__excepthook__)(found)

    @warn.guarded
    def _note_exception(self, kind):
        if self._recorder.owned():
            self._recorder.mark(records.USER, f"exception: {kind.__name__}")
            self._recorder.write_state()

    @warn.guarded
    def _on_exit(self):
        if self._recorder.owned():
            self._end()

    # --- signals

    def _install_signals(self):
        if threading.current_thread() is not threading.main_thread():
            warn.warn("signals", "started outside the main thread: SIGTERM and SIGUSR1 are not handled")
            return
        for name in _SIGNALS:
            number = getattr(signal, name)
            previous = signal.getsignal(number)
            # An ignored signal stays ignored; a handler that is not Python's cannot be called.
            if previous is None or previous == signal.SIG_IGN:
                continue
            if name == "SIGUSR1" and previous != signal.SIG_DFL:
                continue  # the job wants it for itself
            self._previous_signals[number] = previous
            signal.signal(number, self._on_signal)

    def _on_signal(self, number, frame):
        gate.when_outside(lambda: self._handle(number, frame))

    def _handle(self, number, frame):
        name = signal.Signals(number).name
        self._write_for(name, final=name == "SIGTERM")
        previous = self._previous_signals.get(number)
        if name == "SIGUSR1":
            return
        if callable(previous):
            previous(number, frame)
        elif os.getpid() == self._recorder.pid or previous == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    @warn.guarded
    def _write_for(self, name, final):
        if not self._recorder.owned():
            return
        self._recorder.mark_at(facts.now_us(), records.USER, f"signal {name}", records.MOMENT)
        if final and self._previous_signals.get(signal.SIGTERM) == signal.SIG_DFL:
            self._recorder.stop()
        else:
            self._recorder.write_state()
