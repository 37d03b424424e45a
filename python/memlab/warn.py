"""One warning per fault, on stderr.

Owns the rule that memlab never raises into the job: `guarded` turns its own exceptions into a warning. Keeps
what it said, for the trace's chunk of warnings.
"""

import functools
import sys
import threading

_said = {}
_lock = threading.Lock()


def warn(kind, text):
    """Says `text` on stderr, once for each `kind`. Counts repetitions."""
    with _lock:
        first = kind not in _said
        _said[kind] = (_said[kind][0] + 1, _said[kind][1]) if not first else (1, text)
    if first:
        try:
            sys.stderr.write(f"memlab: {text}\n")
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):
            pass


def said():
    """`[kind, count, text]` of every warning so far."""
    with _lock:
        return [[kind, count, text] for kind, (count, text) in _said.items()]


def forget():
    """Begins anew: a new recording, or a forked child."""
    global _lock
    _lock = threading.Lock()
    _said.clear()


def guarded(action):
    """A function that cannot fail: an exception of `action` becomes a warning and None."""

    @functools.wraps(action)
    def run(*args, **kwargs):
        try:
            return action(*args, **kwargs)
        except Exception as error:  # the job must not see any of it
            warn(f"fault-{action.__qualname__}", f"{action.__qualname__} failed: {type(error).__name__}: {error}")
            return None

    return run
