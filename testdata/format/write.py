"""Writes a memlab trace with nothing but the msgpack package and zlib.

    python3 write.py python-writer.msgpack

The lines between the two marks are the sample writer of docs/trace-format.md.
"""

import sys

# --- sample writer ---
import zlib
from array import array

import msgpack

CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


def column(values):
    """A column in the offset encoding: [0, width, base, bytes]."""
    base = min(values, default=0)
    span = max(values, default=0) - base
    width = next(width for width in (1, 2, 4, 8) if span < 256**width)
    data = array(CODES[width], [value - base for value in values])
    if sys.byteorder == "big":
        data.byteswap()
    return [0, width, base, data.tobytes()]


class Writer:
    def __init__(self, file):
        self.file, self.count, self.events = file, 0, {}
        self.chunk(0, {"version": [1, 0], "writer": "sample 1"})

    def chunk(self, kind, facts, payload=None):
        raw = msgpack.packb(payload) if payload else b""
        stored = zlib.compress(raw, 1)
        codec, stored = (2, stored) if len(stored) < len(raw) else (0, raw)
        parts = ("memlab", kind, codec, len(raw), facts, stored)
        body = b"\x97" + b"".join(map(msgpack.packb, parts))
        self.file.write(body + msgpack.packb(zlib.crc32(body)))
        self.count += 1

    def tables(self, first_string, strings, first_frame, frames, first_stack, stacks):
        functions, files, lines = zip(*frames)
        flat = [frame for stack in stacks for frame in stack]
        facts = {"strings": [first_string, len(strings)], "frames": [first_frame, len(frames)]}
        facts |= {"stacks": [first_stack, len(stacks)], "stack_frames": len(flat)}
        rows = {"strings": strings, "frame_function": column(functions), "frame_file": column(files)}
        rows |= {"frame_line": column(lines), "stack_length": column([len(stack) for stack in stacks])}
        self.chunk(1, facts, rows | {"stack_frame": column(flat)})

    def event_chunk(self, device, events):
        action, time, address, size, stream, stack = zip(*events)
        streams = list(dict.fromkeys(stream))
        first = self.events.get(device, 0)
        facts = {"device": device, "first": first, "count": len(events), "streams": streams}
        facts |= {"start_us": min(time), "end_us": max(time)}
        columns = {"action": action, "time": time, "address": address, "size": size, "stack": stack}
        columns["stream"] = [streams.index(value) for value in stream]
        self.chunk(2, facts, {name: column(values) for name, values in columns.items()})
        self.events[device] = first + len(events)

    def close(self):
        self.chunk(15, {"clean": True, "chunks": self.count, "devices": list(self.events.items())})
# --- end of the sample writer ---


def main(path):
    with open(path, "wb") as file:
        writer = Writer(file)
        # Strings are numbered from 1 (0 is the empty one), frames from 0, stacks from 1 (0 is the empty one).
        writer.tables(1, ["forward", "train.py", "main", "run.py"], 0, [(1, 2, 12), (3, 4, 3)], 1, [(0, 1), (1,)])
        base, start = 0x7F00_0000_0000, 1_795_962_240_274_936
        events = [(3, start, base, 2 << 20, 0, 2)]
        for step in range(1000):
            address = base + 512 * (step % 64)
            events.append((0, start + 20 * step, address, 500 + step % 9, 0x5555 * (step % 2), 1 + step % 2))
            events.append((1, start + 20 * step + 7, address, 500 + step % 9, 0x5555 * (step % 2), 0))
            events.append((2, start + 20 * step + 8, address, 500 + step % 9, 0x5555 * (step % 2), 0))
        for first in range(0, len(events), 1024):
            writer.event_chunk(0, events[first : first + 1024])
        writer.close()


if __name__ == "__main__":
    main(sys.argv[1])
