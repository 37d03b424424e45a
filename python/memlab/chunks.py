"""Whole chunks of the trace format, appended to a file.

Owns the frame of a chunk (magic, codec, checksum), the budget of docs/trace-format.md and the file itself. Every
chunk goes out in one `write`, so that a killed process leaves at most one of them cut. What a chunk says is the
caller's business.
"""

import os
import zlib
from threading import RLock

import msgpack

HEADER, TABLES, EVENTS, SEGMENTS, SETTINGS, ANNOTATIONS, PROCESS, MARKS, TENSORS, HOLDERS, WARNINGS, SAMPLES = range(12)
TRAILER = 15

#: What a reader is ready to spend: docs/trace-format.md, "Bounds".
_BUDGET_BASE = 32 << 20
_BUDGET_PER_BYTE = 64
#: Longest payload that a reader takes.
MAX_PAYLOAD = 16 << 20
_COMPRESSION = 1


class ChunkFile:
    """A trace that is being written. `write_chunk` raises `OSError` if the disk does not take it."""

    def __init__(self, file, writer):
        self._file = file
        self._lock = RLock()
        self._spent = {True: 0, False: 0}
        self.chunks = 0
        self.bytes = 0
        self.write_chunk(HEADER, {"version": [1, 3], "writer": writer})

    @classmethod
    def create(cls, path, writer):
        """A new file at `path`; one that is there is replaced. Not inherited by programs that the job starts."""
        return cls(open(path, "wb", buffering=0), writer)

    def write_chunk(self, kind, facts, payload=None, cost=0):
        """Appends one chunk. `cost` is what the format's table of costs says of it, without the payload's own length."""
        raw = msgpack.packb(payload) if payload else b""
        if len(raw) > MAX_PAYLOAD:
            raise ValueError(f"a chunk of kind {kind} has {len(raw)} bytes; a reader takes {MAX_PAYLOAD}")
        with self._lock:
            body = self._body(kind, facts, raw, cost)
            self._write_all(body + msgpack.packb(zlib.crc32(body)))
            self.chunks += 1

    def sync(self):
        """Sees to it that what was written survives the machine, if the file system can."""
        try:
            os.fsync(self._file.fileno())
        except (OSError, ValueError, AttributeError):
            pass

    def close(self, clean, events):
        """Writes the trailer and closes the file. `events` maps devices to the number of their events."""
        devices = [[device, count] for device, count in sorted(events.items())]
        self.write_chunk(TRAILER, {"clean": clean, "chunks": self.chunks, "devices": devices})
        self.sync()
        self.abandon()

    def abandon(self):
        """Closes the file as it is."""
        try:
            self._file.close()
        except OSError:
            pass

    def _body(self, kind, facts, raw, cost):
        packed = zlib.compress(raw, _COMPRESSION) if len(raw) > 64 else raw
        codec, stored = (2, packed) if len(packed) < len(raw) else (0, raw)
        spent = self._spent[kind == TABLES] + cost
        if codec and spent > _BUDGET_BASE + _BUDGET_PER_BYTE * (self.bytes + len(stored)):
            codec, stored = 0, raw  # brings the sum back
        self._spent[kind == TABLES] = spent
        return b"\x97" + b"".join(map(msgpack.packb, ("memlab", kind, codec, len(raw), facts, stored)))

    def _write_all(self, data):
        """Writes `data` whole; what a full disk cut off is taken back, so that the file stays a row of whole chunks."""
        view = memoryview(data)
        try:
            while view:
                written = self._file.write(view)
                if not written:
                    raise OSError("the file takes no more bytes")
                view = view[written:]
        except OSError:
            self._take_back()
            raise
        self.bytes += len(data)

    def _take_back(self):
        try:
            self._file.truncate(self.bytes)
            self._file.seek(self.bytes)
        except (OSError, ValueError, AttributeError):
            pass
