"""Holds the driver's calls of a PyTorch program against its allocator's segments; independent of the analyzer.

Usage: layers.py [NAME.msgpack] NAME.driver.msgpack [TRUTH.json], in any order. The first is the emitter's trace, the last
what `jobs/truth.py` printed. At every moment of the truth, and at the end: each segment is one live allocation of the
same address and size (an expandable one: mappings that tile it), and what libc10_cuda took is nothing else. Of the
emitter's trace also every event of a segment must be the driver's call, in the same order. Then whose the rest is.
Exit code 1: something differs.
"""

import json
import sys

import msgpack

import takings
from compare import Trace
from emitted import Emitted

ALLOCATOR = "libc10_cuda.so"
SHOWN = 5


class Report:
    """Prints comparisons and remembers whether one failed."""

    def __init__(self):
        self.failed = False

    def check(self, holds, text):
        self.failed |= not holds
        print("ok  " if holds else "DIFF", text)

    def differences(self, texts, what):
        """`texts` say what differs; there should be none."""
        self.check(not texts, what if not texts else f"{what}: {len(texts)} differ")
        for text in texts[:SHOWN]:
            print("       ", text)


def own(trace, rows):
    return [row for row in rows if takings.goes_through(trace, row, ALLOCATOR)]


def segment_differences(state, segments):
    """What of the segments is not the driver's, and what libc10_cuda holds beside them."""
    trace, wrong = state.trace, []
    blocks = {row["address"]: row for row in own(trace, state.blocks.values())}
    maps = {at: entry for at, entry in state.maps.items() if takings.goes_through(trace, entry[2], ALLOCATOR)}
    for address, size, _, is_expandable in segments:
        if is_expandable:
            wrong += untiled(maps, address, size)
            continue
        row = blocks.pop(address, None)
        if row is None or row["bytes"] != size:
            found = f"{row['bytes']:,} bytes" if row else "nothing"
            wrong.append(f"segment {address:#x} of {size:,} bytes: the driver has {found} there")
    wrong += [f"no segment: {row['bytes']:,} bytes at {at:#x}" for at, row in blocks.items()]
    wrong += [f"no segment: a mapping of {entry[0]:,} bytes at {at:#x}" for at, entry in maps.items()]
    # Physical memory without a mapping would be held by nobody's segment.
    unmapped = [one for one in state.physical if not one.mapped and takings.goes_through(trace, one.row, ALLOCATOR)]
    return wrong + [f"not mapped: {one.bytes:,} bytes, handle {one.row['handle']:#x}" for one in unmapped]


def untiled(maps, address, size):
    """Takes the mappings of a segment out of `maps`; says where they do not tile it."""
    at, end = address, address + size
    while at < end:
        entry = maps.pop(at, None)
        if entry is None:
            return [f"expandable segment {address:#x} of {size:,} bytes: nothing is mapped at {at:#x}"]
        at += entry[0]
    return [] if at == end else [f"expandable segment {address:#x}: the last mapping reaches {at - end:,} bytes beyond"]


def compare_moment(report, state, segments, name):
    rows = own(state.trace, state.takings())
    taken, size = sum(row["bytes"] for row in rows), sum(segment[1] for segment in segments)
    expandable = sum(1 for segment in segments if segment[3])
    text = f"{name}: {len(segments)} segments ({expandable} expandable), {size:,} bytes = live calls of {ALLOCATOR}"
    report.differences(segment_differences(state, segments), text)
    report.check(taken == size, f"{name}: {len(rows)} takings of {ALLOCATOR} sum up to {taken:,}, segments to {size:,}")


def residual(report, state, moment, name):
    """What nvidia-smi's kind of figure has beyond all takings: the context, code, stacks of kernels, rounding."""
    used, taken = moment["total"] - moment["free"], sum(row["bytes"] for row in state.takings())
    smi = moment.get("nvidia_smi")
    asked = f"{smi:,}" if smi else "not known"
    text = f"{name}: device_used {used:,} - takings {taken:,} = context and others {used - taken:,}"
    report.check(used >= taken, f"{text}; nvidia-smi for the process {asked}")


def by_module(state, name):
    print(f"     {name}: held by")
    for module, size, count in takings.by_taker(state.trace, state.takings()):
        print(f"       {size:>16,} bytes in {count:>4} takings  {module}")


PAIRS = {"device_alloc": "segment_alloc", "device_free": "segment_free", "map": "segment_map", "unmap": "segment_unmap"}


def compare_history(report, trace, emitted):
    """Every event of a segment is the driver's call or calls, in the same order."""
    for device in sorted(emitted.count):
        calls = calls_of(trace, device)
        events = events_of(emitted, device, calls)
        for call, kind in PAIRS.items():
            if not calls[call] and not events[kind]:
                continue
            wrong, apart = misfits(calls[call], events[kind], sized=call != "device_free")
            report.differences(wrong, f"device {device}: {len(events[kind])} events {kind} = {len(calls[call])} calls {call}, in order")
            print(f"       time of the event less that of its call: {apart}")


def calls_of(trace, device):
    """Rows of libc10_cuda on the device that changed something, in order, by call. A thread that has no context yet maps
    without saying a device."""
    calls = {call: [] for call in PAIRS}
    for row in own(trace, takings.in_order(trace)):
        name = trace.name(row)
        here = row["device"] == device or name in ("map", "unmap") and row["device"] == 2**32 - 1
        if name in calls and here and row["address"] and not row["result"] and not row["depth"]:
            calls[name].append(row)
    return calls


def events_of(emitted, device, calls):
    """Events of segments by kind. What was there before the first one counts as if it had been taken then, in the order of
    the calls: a state lists segments by address."""
    events = {kind: [] for kind in PAIRS.values()}
    first = {}
    for place, row in enumerate(calls["device_alloc"] + calls["map"]):
        first.setdefault(row["address"], place)
    begins = sorted(emitted.begins.get(device, []), key=lambda segment: first.get(segment[0], 0))
    for address, size, _, is_expandable in begins:
        kind = "segment_map" if is_expandable else "segment_alloc"
        events[kind].append((kind, address, size, None, device))
    for event in emitted.events:
        if event[4] == device:
            events[event[0]].append(event)
    return events


def misfits(rows, events, sized):
    """Walks both in order. An event of mappings covers as many calls as tile it; a free says no size."""
    wrong, apart, index = [], [], 0
    for kind, address, size, time, _ in events:
        at = address
        while at < address + size and index < len(rows) and rows[index]["address"] == at:
            row, index = rows[index], index + 1
            at += row["bytes"] if sized else size
            if time is not None:
                apart.append(signed(time) - row["time"])
        if at != address + size:
            found = f"{rows[index]['address']:#x}, {rows[index]['bytes']:,} bytes" if index < len(rows) else "no call"
            wrong.append(f"{kind} {address:#x}, {size:,} bytes: the next call is {found}")
            return wrong, "not compared"
    wrong += [f"no event: {row['address']:#x}, {row['bytes']:,} bytes, call {row['order']}" for row in rows[index:]]
    return wrong, f"{min(apart)} to {max(apart)} us" if apart else "no pair"


def signed(value):
    return value - 2**64 if value >= 2**63 else value


def whole(report, trace):
    """The recording by itself: complete, and possible."""
    hook = trace.process.get("other", {}).get("driver", {}).get("hook")
    lost = trace.process.get("lost_events") or 0
    stacks = [sum(1 for row in trace.rows if row[kind]) for kind in ("native", "python")]
    text = f"hook {hook}, {len(trace.rows)} rows ({stacks[0]} with a native stack, {stacks[1]} with Python)"
    is_whole = trace.closed and not trace.faults and not lost
    report.check(is_whole, f"{text}, closed {trace.closed}, faults {trace.faults}, lost {lost}")
    state = takings.state_at(trace)
    report.differences(state.faults, "every free, release and unmap is of something live")
    report.differences([f"{one} and {other}" for one, other in state.overlaps()], "live addresses do not overlap")
    return state


def sort_out(paths):
    """The truth, the emitter's trace and the driver's, by what is in the files; None for what is not there."""
    truth = emitted = trace = None
    for path in paths:
        if path.endswith(".json"):
            with open(path) as file:
                truth = json.load(file)
            continue
        with open(path, "rb") as file:
            kinds = {chunk[1] for chunk in msgpack.Unpacker(file, strict_map_key=False, max_buffer_size=1 << 30)}
        if 14 in kinds:
            trace = Trace(path)
        else:
            emitted = Emitted(path)
    return truth, emitted, trace


def main(paths):
    truth, emitted, trace = sort_out(paths)
    if trace is None:
        print("layers.py: no trace among the arguments has driver calls (chunks of kind 14)", file=sys.stderr)
        return 2
    report = Report()
    last = whole(report, trace)
    pids = [one["pid"] for one in (trace.process, emitted and emitted.process, truth) if one and "pid" in one]
    report.check(len(set(pids)) == 1, f"one process: {sorted(set(pids))}")
    moments = sorted((truth or {}).get("moments", {}).items(), key=lambda one: one[1]["time_us"])
    for name, moment in moments:
        state = takings.state_at(trace, moment["time_us"])
        compare_moment(report, state, moment["segments"], name)
        size = sum(segment[1] for segment in moment["segments"])
        report.check(size == moment["reserved"], f"{name}: memory_stats() has reserved {moment['reserved']:,}, segments sum up to {size:,}")
        residual(report, state, moment, name)
        by_module(state, name)
    if emitted:
        segments = [row for rows in emitted.states.values() for row in rows]
        report.check(bool(emitted.states), f"the emitter's trace has a state of {sorted(emitted.states)}; closed clean {emitted.closed}")
        compare_moment(report, last, segments, "the emitter's last state")
        compare_history(report, trace, emitted)
    if not moments:
        by_module(last, "the end")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
