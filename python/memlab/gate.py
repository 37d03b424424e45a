"""A lock that signal handlers may meet.

Python runs signal handlers on the main thread between any two bytecodes, also while that thread is inside
memlab. A plain lock would deadlock there and a reentrant one would let the handler in halfway through. `Gate`
lets a thread in once; who comes a second time is told so, and what a signal wanted is done when the thread
leaves. Owns that and nothing else.
"""

import threading
from contextlib import contextmanager

_inside = {}  # thread id: how many gates it is inside of
_deferred = []


class Gate:
    """`with gate.passing() as entered:`; `entered` is False if this thread is inside already or the time is up."""

    def __init__(self, timeout=10.0):
        self._lock = threading.Lock()
        self._owner = None
        self._timeout = timeout

    @contextmanager
    def passing(self):
        """Waits for other threads, never for the own one."""
        me = threading.get_ident()
        # A signal between acquiring and noting the owner finds the thread registered already, and is put off.
        _inside[me] = _inside.get(me, 0) + 1
        entered = False
        try:
            if self._owner != me and self._lock.acquire(timeout=self._timeout):
                self._owner, entered = me, True
            yield entered
        finally:
            if entered:
                self._owner = None
                self._lock.release()
            _leave(me)


def when_outside(action):
    """Runs `action` now, or when this thread has left the gates that it is inside of. For signal handlers."""
    if _inside.get(threading.get_ident()):
        _deferred.append((threading.get_ident(), action))
    else:
        action()


def forget():
    """In a forked child: no other thread came along."""
    _inside.clear()
    del _deferred[:]


def _leave(me):
    left = _inside.get(me, 1) - 1
    if left:
        _inside[me] = left
        return
    _inside.pop(me, None)
    while _deferred:
        waiting = [entry for entry in _deferred if entry[0] == me]
        if not waiting:
            return
        _deferred.remove(waiting[0])
        waiting[0][1]()
