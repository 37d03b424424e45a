"""A stand-in for torch: replays a recorded `_snapshot()` in slices, counters included.

`advance(n)` lets the next n events happen. What the real allocator would do to its counters, this does by counting.
"""

import gzip
import pickle
from pathlib import Path

from memlab.drain import COUNTED

TESTDATA = Path(__file__).resolve().parents[2] / "testdata"


def load(name):
    """A recorded snapshot by name, `cnn` or `gpt`."""
    for path in (TESTDATA / "torch" / f"{name}.pickle", TESTDATA / "torch" / f"{name}.pickle.gz"):
        if path.exists():
            data = path.read_bytes()
            return pickle.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    raise FileNotFoundError(name)


class StandIn:
    """Has the methods of `memlab.backend.Torch`."""

    version = "2.11.0"

    def __init__(self, snapshot):
        self._snapshot = snapshot
        self._events = snapshot["device_traces"][0]
        self._happened = self._ring_start = 0
        self._annotations = list(snapshot.get("external_annotations") or [])
        self._annotation_start = 0
        self._recording, self._ready = False, True
        self._queued = []
        self.observer = None
        self.backend_name = "native"
        #: Called inside `snapshot()` after the trace was copied: what happens there is lost if the ring is cleared.
        self.meanwhile = None
        self.clears = self.snapshots = 0

    # --- the test's side

    def advance(self, count=None):
        """The next `count` events happen, or all that are left."""
        end = len(self._events) if count is None else min(len(self._events), self._happened + count)
        if not self._recording:
            self._ring_start = end
        self._happened = end
        return end < len(self._events)

    @property
    def left(self):
        return len(self._events) - self._happened

    def become_ready(self):
        """CUDA gets initialised."""
        self._ready = True
        for action in self._queued:
            action()

    # --- memlab's side

    def check(self):
        pass

    def when_ready(self, action):
        if self._ready:
            action()
        else:
            self._queued.append(action)

    def allocator(self):
        return self.backend_name

    def is_recording(self):
        return self._recording

    def start(self, stacks, context):
        self._recording, self._ring_start = True, self._happened

    def clear(self):
        self.clears += 1
        self._recording, self._ring_start = True, self._happened
        self._annotation_start = len(self._annotations)

    def stop(self):
        self._recording = False

    def snapshot(self):
        self.snapshots += 1
        trace = self._events[self._ring_start : self._happened]
        whole = self._happened == len(self._events)
        annotations = self._annotations[self._annotation_start :] if whole else []
        if self.meanwhile is not None:
            self.meanwhile(self)
        return {
            "segments": self._snapshot["segments"] if whole else [],
            "device_traces": [trace],
            "allocator_settings": self._snapshot.get("allocator_settings", {}),
            "external_annotations": annotations,
        }

    def devices(self):
        return 1

    def counters(self, device):
        actions = [entry["action"] for entry in self._events[: self._happened]]
        counters = {key: actions.count(action) for key, action in COUNTED.items()}
        return {**counters, "reserved_bytes.all.peak": 1}

    def counted(self, device, paths):
        counters = self.counters(device)
        return tuple(counters[".".join(path)] for path in paths)

    def driver_memory(self, device):
        return 100 << 30, 140 << 30

    def observe_oom(self, observer):
        self.observer = observer

    def facts(self):
        devices = [{"device": 0, "name": "Stand-in", "total_bytes": 140 << 30}]
        return {"torch_version": self.version, "cuda_version": "13.0", "devices": devices}

    def memory_fraction(self, device):
        return 1.0
