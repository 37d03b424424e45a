"""One recording: from `start` to `stop`, one file.

Owns the order of things: when the history is read, which thread writes, what is written at the end. Reading is
`drain`'s, formats are `events`' and `records`', names are `census`' and `holders`'. Two gates: one for reading
torch, one for the file; no thread is ever inside both.
"""

import os
import threading
import time
from collections import deque

from . import events, facts, records, warn
from .chunks import ChunkFile
from .drain import Drain
from .gate import Gate
from .intern import Tables

#: Batches that may wait for the writer before whoever read one writes it himself.
_MOST_WAITING = 4
#: Counters that every sample has.
CHECKED = tuple(f"{name}_bytes.all.current" for name in ("allocated", "active", "reserved", "requested")) + (
    "allocation.all.allocated",
    "allocation.all.freed",
    "num_alloc_retries",
    "num_ooms",
)
#: After so many events the state of the memory is written with them, so that a reader may begin there.
STATE_EVENTS = 1_000_000
#: With so many events waiting the history is cleared even if the counters do not stand still: memory comes first.
_FORCED = 500_000


class Recorder:
    """A recording. Every method is safe to call at any time, from any thread, and none raises what torch raised."""

    def __init__(self, path, options, backend, version):
        self.path, self.options, self.backend = path, options, backend
        self.pid = os.getpid()
        self.active = False  # the file is open and takes chunks
        self.recording = False  # torch's history is ours
        self._facts = facts.of_process(options, version)
        self._file = ChunkFile.create(path, f"memlab {version}")
        self.active = True
        self._tables = Tables()
        self._events = events.EventWriter(self._file, self._tables)
        self._reading, self._writing = Gate(), Gate()
        self._waiting, self._marks = deque(), deque()
        self._devices, self._drain, self._thread = [], None, None
        self._wake = threading.Event()
        self._last_read = self._last_step = time.monotonic()
        self._settings, self._lost, self._said = None, 0, 0
        self._cost = {"reads": 0, "read_s": 0.0, "longest_read_s": 0.0, "write_s": 0.0}
        self._sampled, self._state_counts = set(), {}
        self._first_segments, self._since_state = None, 0
        with self._writing.passing():
            self._guarded_write(lambda: records.write_process(self._file, self._facts))

    # --- beginning

    @warn.guarded
    def begin(self):
        """Turns torch's history on. Called once CUDA is in use."""
        if not self.owned() or self.recording:
            return
        self._devices = list(range(self.backend.devices()))
        facts_found, other = facts.of_backend(self.backend, self._devices)
        self._facts = {**self._facts, **facts_found, "other": {**self._facts["other"], **other}}
        with self._writing.passing():
            self._guarded_write(lambda: records.write_process(self._file, self._facts))
        if not self._is_ours(other.get("backend", "native")):
            return
        self.backend.start(self.options.stacks, self.options.context)
        self._drain = Drain(self.backend, self._devices)
        self._first_segments = self._drain.held_before()
        self.recording = True

    def _is_ours(self, allocator):
        """Whether there is a history, and nobody else's."""
        if allocator != "native":
            self.fault("allocator", f"the allocator is {allocator}, which keeps no history: only counters are recorded")
        elif self.backend.is_recording():
            self.fault("other-recorder", "another recorder of memory history is active; it keeps it, only counters are recorded")
        else:
            return True
        return False

    def start_thread(self):
        """The thread that reads by time and count, and writes."""
        self._thread = threading.Thread(target=self._work, name="memlab", daemon=True)
        self._thread.start()

    def owned(self):
        """Whether this process is the one that records: a forked child is not."""
        return self.active and self.pid == os.getpid()

    # --- while it runs

    def mark(self, kind, name, begins=records.MOMENT):
        """Notes a moment, or one end of a span."""
        self.mark_at(facts.now_us(), kind, name, begins)

    def mark_at(self, time_us, kind, name, begins):
        """The same for a moment that is past."""
        if self.active:
            self._marks.append((kind, name, time_us, begins))

    def fault(self, kind, text):
        """Something does not work: one warning, and a mark in the trace."""
        warn.warn(kind, text)
        self.mark(records.FAULT, text)

    @warn.guarded
    def at_step(self):
        """A quiet moment of the training loop: autograd's threads rest, so reading loses nothing."""
        if not self.owned():
            return
        self._last_step = time.monotonic()
        if self._due(1):
            self.read()

    def read(self, force=False):
        """Takes what torch has recorded so far. The worker writes it, or this thread if the worker is behind."""
        if not self.owned():
            return
        if self.recording and (force or self._drain.pending()):
            with self._reading.passing() as entered:
                if entered:
                    self._read(force)
        else:  # nothing to read, but what the driver says may have changed
            self._waiting.append((None, self._samples(None), False, False))
        if self._thread is None or len(self._waiting) > _MOST_WAITING:
            self.flush()
        else:
            self._wake.set()

    def _read(self, force, with_state=False, at_any_rate=False):
        if self.backend.is_recording() is False:
            warn.warn("switched-off", "somebody turned the memory history off; it is on again, what lay between is counted as lost")
            self.backend.clear()
        begun = time.perf_counter()
        batch = self._drain.read(force)
        took = time.perf_counter() - begun
        self._last_read = time.monotonic()
        cost = self._cost
        cost["reads"] += 1
        cost["read_s"] += took
        cost["longest_read_s"] = max(cost["longest_read_s"], took)
        self._since_state += sum(map(len, batch.entries.values()))
        is_due = with_state or self._since_state >= STATE_EVENTS
        with_segments = at_any_rate or (is_due and batch.still)
        if with_segments:
            self._since_state = 0
        self._waiting.append((batch, self._samples(batch), with_state, with_segments))
        return batch

    def _samples(self, batch):
        """What the counters and the driver say at this read, for devices in use. Exact if nothing happened since."""
        samples = []
        for device in self._devices:
            try:
                stats = self.backend.counters(device)
                if not stats.get("reserved_bytes.all.peak") and not stats.get("allocation.all.allocated"):
                    continue
                free, total = self.backend.driver_memory(device)
            except Exception:
                continue
            exact = batch is not None and batch.cleared and batch.equals(device, stats)
            sample = {"device": device, "time_us": facts.now_us(), "exact": exact, "free_bytes": free, "total_bytes": total}
            samples.append({**sample, "stats": stats})
        self._last_read = time.monotonic()
        return samples

    def _due(self, factor):
        if time.monotonic() - self._last_read >= self.options.interval * factor:
            return True
        return self.recording and self._drain.pending() >= self.options.max_events * factor

    def _work(self):
        """The worker: reads when no step does it, writes what was read."""
        tick = min(0.25, self.options.interval / 2)
        while self.active:
            self._wake.wait(tick)
            self._wake.clear()
            self._work_once()

    @warn.guarded
    def _work_once(self):
        if not self.owned():
            return
        stepping = time.monotonic() - self._last_step < 2 * self.options.interval
        if self._devices and self._due(4 if stepping else 1):
            self.read(force=self.recording and self._drain.pending() >= _FORCED)
        self.flush()

    # --- writing

    def flush(self):
        """Writes whole what was read, in order."""
        with self._writing.passing() as entered:
            if entered and self.owned():
                begun = time.perf_counter()
                self._guarded_write(self._write_waiting)
                self._cost["write_s"] += time.perf_counter() - begun

    def _write_waiting(self):
        while self._waiting:
            batch, samples, with_state, with_segments = self._waiting.popleft()
            if batch is not None:
                self._write_batch(batch)
            self._write_samples(samples, with_state)
            if with_segments:
                self._write_segments(batch.snapshot.get("segments") or [])
        marks = [self._marks.popleft() for _ in range(len(self._marks))]
        if marks:
            records.write_marks(self._file, marks)
        self._write_news()

    def _write_samples(self, samples, with_state):
        """All counters at first, then those that an analyzer checks; all again with a state."""
        for sample in samples:
            device = sample["device"]
            sample["events"] = self._events.counts.get(device, 0) if sample.pop("exact") else None
            if device in self._sampled and not with_state:
                sample["stats"] = {key: sample["stats"][key] for key in CHECKED if key in sample["stats"]}
            self._sampled.add(device)
        records.write_samples(self._file, samples)

    def _write_batch(self, batch):
        settings = batch.snapshot.get("allocator_settings")
        if settings and settings != self._settings:
            records.write_settings(self._file, settings)
            self._settings = settings
        for device, entries in sorted(batch.entries.items()):
            if device not in self._events.counts and self._first_segments is not None:
                held = [segment for segment in self._first_segments if segment.get("device", 0) == device]
                events.write_segments(self._file, self._tables, {}, held, [device])
            self._events.write(device, entries)
        if batch.annotations:
            events.write_annotations(self._file, self._tables, batch.annotations)

    def _write_news(self):
        """Newly lost events and new warnings."""
        lost = self._drain.lost() if self._drain else 0
        if lost > self._lost:
            records.write_marks(self._file, [(records.FAULT, f"lost {lost - self._lost} events", facts.now_us(), records.MOMENT)])
            warn.warn("lost-events", "events were lost: the trace says how many and is not complete")
            self._lost = lost
            records.write_process(self._file, {"lost_events": lost})
        said = warn.said()
        if len(said) > self._said:
            records.write_warnings(self._file, said[self._said :])
            self._said = len(said)

    def _guarded_write(self, action):
        """A file that takes no more ends the recording; the job goes on, what is written stays valid."""
        try:
            action()
        except OSError as error:
            self.active = False
            self._file.abandon()
            warn.warn("disk", f"recording to {self.path} ends here: {error.strerror or error}")
            self._stop_history()

    # --- state and end

    @warn.guarded
    def write_state(self, census=True):
        """Everything that is known at this moment: first events and segments, then names and holders; syncs the file."""
        if not self.owned():
            return
        self._note_limits(facts.of_limits(self.backend, self._devices) if self._devices else {})
        self._read_whole()
        self.flush()
        names = self._names() if census and self._devices else None
        with self._writing.passing() as entered:
            if entered and self.owned():
                self._guarded_write(lambda: self._write_names(names))

    def note_cap(self, device, allowed):
        """At an OOM, torch says how much it may take: tells the cap where torch has no way to ask for it."""
        if self._devices and self.backend.memory_fraction(device) is None:
            total = self.backend.driver_memory(device)[1]
            known = self._facts["other"].get("memory_fraction", {})
            self._note_limits({"memory_fraction": {**known, str(device): min(1.0, allowed / total)}})

    def _note_limits(self, found):
        other = self._facts["other"]
        if found and found.get("memory_fraction") != other.get("memory_fraction"):
            self._facts = {**self._facts, "other": {**other, **found}}
            with self._writing.passing() as entered:
                if entered:
                    self._guarded_write(lambda: records.write_process(self._file, {"other": self._facts["other"]}))

    def _read_whole(self):
        """Reads until nothing moves, a few times at most."""
        if not self.recording:
            return
        with self._reading.passing() as entered:
            for attempt in range(5 if entered else 0):
                if self._read(force=False, with_state=True, at_any_rate=attempt == 4).cleared:
                    break
                time.sleep(0.002 * attempt)

    def _names(self):
        from . import naming  # needs torch

        names = naming.census_and_holders(self.options) if self.options.census else None
        for fault in names.faults if names else ():
            self.mark(records.FAULT, fault)
        return names

    def _write_segments(self, segments):
        """The state right after the events that came with it."""
        counts = self._events.counts
        used = sorted(set(counts) | {segment.get("device", 0) for segment in segments})
        events.write_segments(self._file, self._tables, counts, segments, used)
        self._state_counts = dict(counts)

    def _write_names(self, names):
        if names is not None:
            records.write_tensors(self._file, names.tensors, names.time_us, self._state_counts)
            records.write_holders(self._file, names.holders, names.time_us, self._state_counts)
        self._write_waiting()
        self._file.sync()

    @warn.guarded
    def stop(self, census=True):
        """Writes the state and the trailer, turns the history off, closes the file."""
        if not self.owned():
            return
        self.write_state(census)
        complete = not self.recording or self._drain.complete_up_to_now()
        self._stop_history()
        with self._writing.passing() as entered:
            if entered and self.active:
                self._guarded_write(lambda: self._close(complete))
        self.active = False
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=2.0)

    def _close(self, complete):
        self._write_waiting()
        cost = {key: round(value, 6) for key, value in self._cost.items()}
        records.write_process(self._file, {"lost_events": self._lost, "other": {**self._facts["other"], "recorder": cost}})
        self._file.close(complete and not self._lost, self._events.counts)

    @warn.guarded
    def _stop_history(self):
        if self.recording:
            self.recording = False
            self.backend.stop()

    def forget(self):
        """In a forked child: nothing is written, the parent's file is let go."""
        self.active = self.recording = False
        self._file.abandon()
