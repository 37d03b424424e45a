"""Holds a trace of driver calls against what the program said it did; reads the format by hand (msgpack, zlib).

Usage: compare.py TRACE EXPECTED     rows `call bytes line kept|freed|failed`, as testdata/driver/leaks.cu prints them
       compare.py TRACE              says what is in the trace
Without binutils' addr2line lines are not compared. Exit code 1: something differs.
"""

import collections
import os
import shutil
import subprocess
import sys
import zlib

import msgpack

NAMES = (
    "? device_alloc device_free managed_alloc host_alloc host_free host_register host_unregister address_reserve"
    " address_free create release map unmap pool_alloc pool_free pool_create pool_destroy pool_trim array_create"
    " array_destroy context_create context_destroy context_retain context_release context_reset retain import ipc_open"
    " ipc_close"
).split()
FREES = {
    "device_free": ("address", ("device_alloc", "managed_alloc", "pool_alloc")),
    "pool_free": ("address", ("device_alloc", "managed_alloc", "pool_alloc")),
    "host_free": ("address", ("host_alloc",)),
    "host_unregister": ("address", ("host_register",)),
    "address_free": ("address", ("address_reserve",)),
    "unmap": ("address", ("map",)),
    "release": ("handle", ("create", "retain", "import")),
    "array_destroy": ("handle", ("array_create",)),
}


def column(value, count):
    if value is None:
        return [0] * count
    encoding, width, base, data = value[:4]
    last, found = value[4] if encoding else 0, []
    for row in range(count):
        step = base + int.from_bytes(data[row * width : (row + 1) * width], "little")
        last = (last if encoding else 0) + step
        found.append(last % 2**64)
    return found


class Trace:
    def __init__(self, path):
        self.rows, self.modules, self.frames, self.stacks, self.faults, self.process = [], [("", "")], [], [[]], [], {}
        self.strings, self.python_frames, self.python_stacks, self.closed, self.samples = [""], [], [[]], False, []
        with open(path, "rb") as file:
            for _, kind, codec, _, facts, payload, _ in msgpack.Unpacker(file, strict_map_key=False, max_buffer_size=1 << 30):
                raw = zlib.decompress(payload) if codec == 2 else payload
                self.take(kind, facts, msgpack.unpackb(raw, strict_map_key=False) if raw else {})

    def take(self, kind, facts, payload):
        count = lambda table: facts.get(table, [0, 0])[1]
        if kind == 1:
            self.strings += payload.get("strings", [])
            names = [column(payload.get(f"frame_{name}"), count("frames")) for name in ("function", "file", "line")]
            self.python_frames += list(zip(*names))
            self.python_stacks += self.runs(facts, payload)
        elif kind == 6:
            self.process.update(payload)
        elif kind == 7:
            self.faults += payload["texts"]
        elif kind == 11:
            self.samples += payload["samples"]
        elif kind == 14:
            keys = "call order time result device context stream address bytes handle offset flags thread depth native python"
            columns = {key: column(payload.get(key), facts["count"]) for key in keys.split()}
            self.rows += [dict(zip(columns, row)) for row in zip(*columns.values())]
        elif kind == 15:
            self.closed = True
        elif kind == 16:
            self.modules += zip(payload.get("module_path", []), payload.get("module_build_id", []))
            frames = count("frames")
            self.frames += zip(column(payload.get("frame_module"), frames), column(payload.get("frame_offset"), frames))
            self.stacks += self.runs(facts, payload)

    @staticmethod
    def runs(facts, payload):
        lengths = column(payload.get("stack_length"), facts.get("stacks", [0, 0])[1])
        flat = iter(column(payload.get("stack_frame"), facts.get("stack_frames", 0)))
        return [[next(flat) for _ in range(length)] for length in lengths]

    def name(self, row):
        code = row["call"] % 64
        return NAMES[code] if code < len(NAMES) else "?"

    def fates(self):
        """Rows that took memory, each with `kept`, `freed` or `failed`."""
        live, fates = {}, []
        for row in sorted(self.rows, key=lambda row: row["order"]):
            name = self.name(row)
            if name in FREES and not row["result"]:
                key, takers = FREES[name]
                for taker in takers:
                    found = live.pop((taker, row[key]), None)
                    if found:
                        found[1] = "freed"
            elif name not in FREES:
                fate = [row, "failed" if row["result"] else "kept"]
                fates.append(fate)
                by_handle = name in ("create", "retain", "import", "array_create")
                if not row["result"]:
                    live[(name, row["handle" if by_handle else "address"])] = fate
        return fates

    def frames_of(self, row, module):
        stack = [self.frames[frame] for frame in self.stacks[row["native"]]]
        return [offset - 1 for index, offset in stack if self.modules[index][0].endswith(module)]


def lines(program, offsets):
    """The source line of each offset."""
    tool = shutil.which("addr2line")
    if not tool or not offsets:
        return {}
    words = [tool, "-e", program] + [hex(offset) for offset in offsets]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    line = lambda place: int(place.rsplit(":", 1)[-1].split(" ")[0].replace("?", "0") or 0)
    return {offset: line(place) for offset, place in zip(offsets, text.splitlines())}


def compare(trace, path):
    expected = collections.Counter()
    with open(path) as file:
        for text in file:
            call, size, line, fate = text.split()
            expected[(call, int(size), int(line), fate)] += 1
    fates = trace.fates()
    program = next((path for path, _ in trace.modules if path.endswith("/leaks")), "")
    offsets = sorted({offset for row, _ in fates for offset in trace.frames_of(row, "/leaks")})
    line_of = lines(program, offsets)
    found = collections.Counter()
    wanted = {key[:2] for key in expected}
    for row, fate in fates:
        name = trace.name(row)
        if (name, row["bytes"]) in wanted and not row["depth"]:
            own = trace.frames_of(row, "/leaks")
            found[(name, row["bytes"], line_of.get(own[0], 0) if own else -1, fate)] += 1
    if not line_of:
        print("no addr2line: lines are not compared")
        drop = lambda counter: collections.Counter({(a, b, 0, d): n for (a, b, _, d), n in counter.items()})
        expected, found = drop(expected), drop(found)
    for key in sorted(set(expected) | set(found)):
        mark = "ok  " if expected[key] == found[key] else "DIFF"
        print(f"{mark} {key[0]:16} {key[1]:>16} line {key[2]:>3} {key[3]:6} expected {expected[key]} found {found[key]}")
    return expected == found


def describe(trace):
    driver = trace.process.get("other", {}).get("driver", {})
    print("driver:", driver, "closed:", trace.closed, "faults:", trace.faults)
    calls = collections.Counter((trace.name(row), bool(row["result"])) for row in trace.rows)
    print("calls:", {f"{name}{' (failed)' if failed else ''}": count for (name, failed), count in sorted(calls.items())})
    kept = [row for row, fate in trace.fates() if fate == "kept" and trace.name(row) in ("device_alloc", "create", "pool_alloc")]
    modules = collections.Counter()
    for row in kept:
        paths = [os.path.basename(trace.modules[trace.frames[frame][0]][0]) for frame in trace.stacks[row["native"]]]
        outer = [path for path in paths if not path.startswith(("libcuda.so", "libcudart"))]
        modules[outer[0] if outer else "?"] += row["bytes"]
    print("kept device bytes by module:", dict(modules.most_common(12)), "sum", sum(modules.values()))
    for device in sorted({sample["device"] for sample in trace.samples}):
        describe_readings(trace, [sample for sample in trace.samples if sample["device"] == device])
    with_native = sum(1 for row in trace.rows if row["native"])
    with_python = sum(1 for row in trace.rows if row["python"])
    depth = max((len(stack) for stack in trace.stacks), default=0)
    driver = (trace.process.get("other") or {}).get("driver") or {}
    if "own_ns" in driver and trace.rows:
        own, worst = driver["own_ns"] / 1000, driver["own_max_ns"] / 1000
        others = (own - worst) / max(len(trace.rows) - 1, 1)
        print(f"the recorder's own time: {own / len(trace.rows):.3f} us a call, the worst {worst:.1f} us, the others {others:.2f} us")
    print(f"rows {len(trace.rows)}, with a native stack {with_native} (deepest {depth}), with Python {with_python}")


def taken(trace, device, calls):
    """Bytes of the device that the process holds by the rows up to `calls`: not what pools keep, nor arrays' padding."""
    live = {}
    for row in sorted(trace.rows, key=lambda row: row["order"]):
        name = trace.name(row)
        if row["order"] > calls or row["result"] or row["depth"]:
            continue
        if name in FREES:
            key, takers = FREES[name]
            for taker in takers:
                live.pop((taker, row[key]), None)
        elif name in ("device_alloc", "pool_alloc", "create", "array_create") and row["device"] == device:
            live[(name, row["handle" if name in ("create", "array_create") else "address"])] = row["bytes"]
    return sum(live.values())


def describe_readings(trace, samples):
    shown = samples if len(samples) <= 8 else samples[:4] + samples[-4:]
    print(f"readings of device {samples[0]['device']}: {len(samples)}")
    for sample in shown:
        used = sample["total_bytes"] - sample["free_bytes"]
        own, calls = sample.get("process_bytes"), sample["driver_calls"]
        held = taken(trace, sample["device"], calls)
        rest = "?" if own is None else own - held
        mark = ", unstable" if sample.get("unstable") else ""
        print(f"  after call {calls}{mark}: device used {used}, process {own}, taken by calls {held}, rest of the process {rest}")


def main():
    trace = Trace(sys.argv[1])
    describe(trace)
    return 0 if len(sys.argv) < 3 or compare(trace, sys.argv[2]) else 1


if __name__ == "__main__":
    sys.exit(main())
