"""Says once that workers which `multiprocessing` spawns are not in the trace.

A spawned worker is a new interpreter: it imports the job's main module and not memlab, so nothing in it is
recorded. (Forked ones are seen by `session`, which keeps them from writing.) Owns one wrapper around the class
that launches such workers; it changes nothing of what that class does.
"""

import functools

from . import warn
from .watch import when_imported

_TEXT = "worker processes that multiprocessing spawns are not recorded; call memlab.start() in them to have that"
_MODULES = ("multiprocessing.popen_spawn_posix", "multiprocessing.popen_spawn_win32", "multiprocessing.popen_forkserver")


def watch(is_recording):
    """Warns at the first spawned worker for which `is_recording()` is true."""
    for name in _MODULES:
        when_imported(name, functools.partial(_wrap, is_recording))


@warn.guarded
def _wrap(is_recording, module):
    launch = module.Popen.__init__
    if getattr(launch, "_memlab", False):
        return

    @functools.wraps(launch)
    def launched(self, *args, **kwargs):
        if is_recording():
            warn.warn("spawned", _TEXT)
        return launch(self, *args, **kwargs)

    launched._memlab = True
    module.Popen.__init__ = launched
