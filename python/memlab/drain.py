"""Reads the allocator's history and empties it, without losing an event if that is possible.

`_snapshot()` and the clearing that follows are two calls; what the allocator does between them would vanish. The
interpreter's lock keeps other Python threads out (torch holds it in both calls, and the switch interval is
stretched), but autograd's threads allocate without it. So the counters of `memory_stats()` are read before and
after: only if they stood still is the history cleared; otherwise it stays, and the next read skips what is known
already. What got lost nevertheless shows in the counters and is counted.

Owns: reading, clearing, positions, the count of lost events. Does not own files, threads or times.
"""

import gc
import sys
import time

#: Counters of `memory_stats()` and the action that each must equal the number of.
COUNTED = {
    "allocation.all.allocated": "alloc",
    "allocation.all.freed": "free_requested",
    "active.all.freed": "free_completed",
    "segment.all.allocated": "segment_alloc",
    "segment.all.freed": "segment_free",
}
_PATHS = tuple(tuple(key.split(".")) for key in COUNTED)
#: Segments may also be mapped and unmapped, under which `segment.*` counts something else.
_EXPANDABLE = ("segment_map", "segment_unmap")
_SETTLE_TRIES = 6
_SETTLE_S = 0.00005
#: Longer than most snapshots take; as long as another thread may make us wait.
_SWITCH_S = 0.05
_YIELD_S = 0.0001


class Batch:
    """What one read brought: new entries by device, new annotations, the whole snapshot, counters.

    `still`: nothing happened while it was read, so its segments are those right after its entries. torch reads the two
    one after the other, and autograd's threads may allocate in between.
    """

    def __init__(self, snapshot, entries, annotations, counters, cleared, still):
        self.snapshot, self.entries, self.annotations = snapshot, entries, annotations
        self.counters, self.cleared, self.still = counters, cleared, still

    def equals(self, device, stats):
        """Whether `stats` are those that stood when this was read."""
        return all(stats.get(key, 0) == value for key, value in self.counters.get(device, {}).items())


class Drain:
    """The state of reading one process's history."""

    def __init__(self, backend, devices):
        self._backend = backend
        self._devices = devices
        self._seen = {}  # entries of the present ring that were read already, by device
        self._seen_annotations = 0
        self._read = {}  # events read since the start: {device: {action: count}}
        self._base = {device: self._counts(device) for device in devices}
        self._lost_before = {}
        self._cleared_at = dict(self._base)

    def pending(self):
        """About how many events wait in the ring. Cheap: it asks the counters."""
        waiting = 0
        for device in self._devices:
            now, then = self._counts(device), self._cleared_at[device]
            moved = [now.get(key, 0) - then.get(key, 0) for key in COUNTED]
            waiting += sum(count for count in moved if count > 0)
        return waiting

    def read(self, force=False):
        """Takes what is new and clears the ring if nothing happens meanwhile; with `force`, in any case."""
        # A snapshot is tens of thousands of new dicts, which would make the collector run, over all of the job's
        # objects and with their finalizers, in the middle of it.
        interval, collecting = sys.getswitchinterval(), gc.isenabled()
        sys.setswitchinterval(_SWITCH_S)
        gc.disable()
        try:
            # Whoever waits for the lock since before has a timer of the old interval running, which could take it
            # from us between the last look at the counters and the clearing. Let them have it now.
            time.sleep(_YIELD_S)
            before = self._settled()
            snapshot = self._backend.snapshot()
            after = self._all_counts()
            cleared = force or before == after
            if cleared:
                self._backend.clear()
                self._cleared_at = after
        finally:
            sys.setswitchinterval(interval)
            if collecting:
                gc.enable()
        return self._new(snapshot, before, cleared, before == after)

    def held_before(self):
        """Segments before the first event, to be asked for before the first read; `None` if something happened already."""
        snapshot = self._backend.snapshot()
        begun = any(snapshot.get("device_traces") or ()) or self._all_counts() != self._base
        return None if begun else snapshot.get("segments") or []

    def lost(self):
        """Events that the counters know of and nobody read, in all. Call it after a read, at a quiet moment."""
        return sum(self._lost_before.values())

    def complete_up_to_now(self):
        """Whether every count equals its counter at this moment."""
        return all(not self._missing(device, self._counts(device)) for device in self._devices)

    def _settled(self):
        """Counters that stood still for a moment, if they ever do. Busy, so that no other Python thread comes in."""
        counts = self._all_counts()
        for _ in range(_SETTLE_TRIES):
            until = time.perf_counter() + _SETTLE_S
            while time.perf_counter() < until:
                pass
            again = self._all_counts()
            if again == counts:
                return counts
            counts = again
        return counts

    def _new(self, snapshot, before, cleared, still):
        entries = {}
        for device, trace in enumerate(snapshot.get("device_traces") or ()):
            seen = self._seen.get(device, 0)
            if seen > len(trace):  # somebody else cleared the ring
                seen = 0
            new = trace[seen:] if seen else trace
            self._seen[device] = 0 if cleared else len(trace)
            if new:
                entries[device] = new
                self._count(device, new)
        annotations = snapshot.get("external_annotations") or []
        seen = self._seen_annotations if self._seen_annotations <= len(annotations) else 0
        self._seen_annotations = 0 if cleared else len(annotations)
        for device in self._devices:
            self._note_lost(device, before[device])
        return Batch(snapshot, entries, annotations[seen:], before, cleared, still)

    def _count(self, device, entries):
        counts = self._read.setdefault(device, {})
        actions = [entry["action"] for entry in entries]
        for action in set(actions):
            counts[action] = counts.get(action, 0) + actions.count(action)

    def _note_lost(self, device, counters):
        """`counters` were read before the snapshot, so all that they count must have been read by now."""
        base = self._base[device]
        if any(counters.get(key, 0) < base.get(key, 0) for key in COUNTED):
            # reset_accumulated_memory_stats(): begin to count anew.
            self._base[device] = dict(counters)
            self._read[device] = {}
            return
        missing = self._missing(device, counters)
        if missing > self._lost_before.get(device, 0):
            self._lost_before[device] = missing

    def _missing(self, device, counters):
        base, read = self._base[device], self._read.get(device, {})
        expandable = any(read.get(action) for action in _EXPANDABLE)
        missing = 0
        for key, action in COUNTED.items():
            if key.startswith("segment") and expandable:
                continue
            missing += max(0, counters.get(key, 0) - base.get(key, 0) - read.get(action, 0))
        return missing

    def _counts(self, device):
        return dict(zip(COUNTED, self._backend.counted(device, _PATHS)))

    def _all_counts(self):
        return {device: self._counts(device) for device in self._devices}
