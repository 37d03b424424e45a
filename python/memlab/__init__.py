"""memlab: every event of the CUDA allocator in one file, with its line, step, module and name.

    import memlab

    with memlab.record("trace.msgpack"):
        train()

or `memlab run train.py`, with no change of code. Then `memlab analyze trace.msgpack`. docs/emitter.md says more.

This package is the emitter. The analyzer is a program of its own, in the same wheel.
"""

import functools

from .options import DEFAULT_PATH
from .version import VERSION as __version__

__all__ = ["__version__", "dump", "mark", "record", "start", "step", "stop"]


def start(path=DEFAULT_PATH, **options):
    """Records from here on, until `stop()` or the end of the process."""
    from . import session

    session.start(path, session.parse(options))


def stop():
    """Ends the recording: writes the state of the memory, names and holders, and closes the file."""
    from . import session

    session.stop()


def step():
    """Says that a training step ends here. Without it, the optimizers tell."""
    from . import session

    session.step()


def mark(name):
    """Notes this moment under a name."""
    from . import session

    session.mark(name)


def dump():
    """Writes the state of the memory, names and holders now; recording goes on."""
    from . import session

    session.dump()


class record:
    """Records a block of code, or every call of a function: `with record(path):` or `@record(path)`."""

    def __init__(self, path=DEFAULT_PATH, **options):
        from . import session

        self._path, self._options, self._session = path, session.parse(options), None

    def __enter__(self):
        from . import session

        self._session = session.start(self._path, self._options)
        return self

    def __exit__(self, kind, value, traceback):
        from . import session

        mine, self._session = self._session, None
        if mine is not None and mine is session.current():
            session.stop()
        return False

    def __call__(self, function):
        @functools.wraps(function)
        def recorded(*args, **kwargs):
            with type(self)._again(self):
                return function(*args, **kwargs)

        return recorded

    @classmethod
    def _again(cls, other):
        """A recorder of its own for every call, so that calls may nest."""
        new = cls.__new__(cls)
        new._path, new._options, new._session = other._path, other._options, None
        return new
