"""Replays a trace's driver calls: what the process holds of the device at a moment, and who took it.

Owns the rules of docs/trace-format.md "Driver (14)" as far as memory of the device goes: cudaMalloc's, pools', physical
memory with its mappings, arrays. Memory of the host, managed memory (it may lie on either side) and imported memory are
no takings. Releases of contexts are not followed: nothing is asked behind a program's end.
"""

import collections
import os

#: Their frames say how memory was taken, not for whom.
BETWEEN = ("libcuda.so", "libcudart")
HOST = 2**32 - 1
BY_ADDRESS = ("device_alloc", "managed_alloc", "pool_alloc")


class Physical:
    """Physical memory: lives until it is released as often as it was obtained, and unmapped."""

    def __init__(self, row, bytes):
        self.row, self.bytes, self.references, self.mapped = row, bytes, 1, 0


class State:
    """What is live after the rows applied so far. Faults: what a whole recording cannot contain."""

    def __init__(self, trace):
        self.trace, self.faults = trace, []
        self.blocks, self.arrays = {}, {}  # by address; by handle
        self.handles, self.physical, self.maps = {}, [], {}  # the maps: address to (bytes, Physical, row)

    def apply(self, row):
        """One call. Failed ones change nothing; those within another one describe the same memory."""
        name = self.trace.name(row)
        if row["result"] or row["depth"]:
            return
        if name in BY_ADDRESS:
            self.put(self.blocks, row["address"], row)
        elif name in ("device_free", "pool_free"):
            self.drop(self.blocks, row["address"], row)
        elif name == "array_create":
            self.put(self.arrays, row["handle"], row)
        elif name == "array_destroy":
            self.drop(self.arrays, row["handle"], row)
        elif name in ("create", "import"):
            self.create(row, name == "create")
        elif name in ("release", "retain", "map", "unmap"):
            getattr(self, name)(row)

    def put(self, table, key, row):
        if key in table:
            self.fault(row, f"{key:#x} is live already")
        table[key] = row

    def drop(self, table, key, row):
        if key and table.pop(key, None) is None:  # freeing nothing is allowed
            self.fault(row, f"{key:#x} is not live")

    def create(self, row, is_taking):
        self.handles[row["handle"]] = Physical(row, row["bytes"])
        if is_taking and row["device"] != HOST:
            self.physical.append(self.handles[row["handle"]])

    def release(self, row):
        physical = self.handles.get(row["handle"])
        if physical is None:
            self.fault(row, f"handle {row['handle']:#x} is not live")
            return
        physical.references -= 1
        if not physical.references:
            del self.handles[row["handle"]]
            self.sweep(physical)

    def retain(self, row):
        """The handle behind a mapping once more; the driver may name it by another number."""
        found = next((one for at, (size, one, _) in self.maps.items() if at <= row["address"] < at + size), None)
        if found is None:
            self.fault(row, f"nothing is mapped at {row['address']:#x}")
            return
        found.references += 1
        self.handles[row["handle"]] = found

    def map(self, row):
        physical = self.handles.get(row["handle"])
        if physical is None:
            self.fault(row, f"handle {row['handle']:#x} is not live")
            return
        physical.mapped += 1
        self.put(self.maps, row["address"], (row["bytes"], physical, row))

    def unmap(self, row):
        """May span several maps."""
        at, end = row["address"], row["address"] + row["bytes"]
        while at < end:
            size, physical, _ = self.maps.pop(at, (0, None, None))
            if not size:
                self.fault(row, f"nothing is mapped at {at:#x}")
                return
            physical.mapped -= 1
            self.sweep(physical)
            at += size

    def sweep(self, physical):
        if not physical.references and not physical.mapped and physical in self.physical:
            self.physical.remove(physical)

    def fault(self, row, text):
        self.faults.append(f"call {row['order']}, {self.trace.name(row)}: {text}")

    def takings(self):
        """Rows that hold memory of the device."""
        blocks = [row for row in self.blocks.values() if self.trace.name(row) != "managed_alloc"]
        return blocks + list(self.arrays.values()) + [one.row for one in self.physical]

    def overlaps(self):
        """Pairs of live ranges of addresses that lie in one another."""
        ranges = [(at, row["bytes"]) for at, row in self.blocks.items()] + [(at, entry[0]) for at, entry in self.maps.items()]
        ranges.sort()
        return [(one, other) for one, other in zip(ranges, ranges[1:]) if one[0] + one[1] > other[0]]


def in_order(trace):
    return sorted(trace.rows, key=lambda row: row["order"])


def state_at(trace, time_us=None):
    """The state at a moment in Unix microseconds; without one, after all rows."""
    state = State(trace)
    for row in in_order(trace):
        # Times are taken with the order, but on two threads not in one step: all rows are looked at.
        if time_us is None or row["time"] <= time_us:
            state.apply(row)
    return state


def modules_of(trace, row):
    """Paths of the files on the row's native stack, innermost first."""
    return [trace.modules[trace.frames[frame][0]][0] for frame in trace.stacks[row["native"]]]


def taker(trace, row):
    """Path of the innermost module that is not CUDA's own way to the driver; empty if there is none."""
    is_between = lambda path: os.path.basename(path).startswith(BETWEEN) or "/cuda/bindings/" in path
    return next((path for path in modules_of(trace, row) if path and not is_between(path)), "")


def goes_through(trace, row, name):
    """Whether a module of that file name is anywhere on the stack."""
    return any(os.path.basename(path) == name for path in modules_of(trace, row))


def by_taker(trace, rows):
    """Bytes and number of rows by the taker's file name, most bytes first."""
    found = collections.defaultdict(lambda: [0, 0])
    for row in rows:
        entry = found[os.path.basename(taker(trace, row)) or "?"]
        entry[0] += row["bytes"]
        entry[1] += 1
    return sorted(((name, *entry) for name, entry in found.items()), key=lambda one: (-one[1], one[0]))
