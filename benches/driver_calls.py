"""Driver calls at size: how fast a recording of N calls is analysed, and whether its figures are right.

    python3 benches/driver_calls.py target/release/memlab [CALLS ...]

Writes a recording by hand (msgpack), whose right values are known, and runs `memlab analyze --json` on it. Best of three;
exits 1 when a figure is wrong. No GPU is needed.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "testdata" / "format"))
from write import Writer, column  # noqa: E402

REPEAT = 3
CHUNK = 16_384
STACKS = 2_000
LIBRARIES = ("/p/libc10_cuda.so", "/p/libcublas.so.13", "/p/libnccl.so.2", "/home/me/sim")


def native(writer):
    """Modules, and stacks of forty frames that are through one of them each."""
    paths = ["/n/libcuda.so.1", *LIBRARIES]
    frames = [(module, 64 * place) for module in range(1, len(paths) + 1) for place in range(1, 1_001)]
    draw = random.Random(1)
    stacks = []
    for stack in range(STACKS):
        module = 1 + stack % len(LIBRARIES)
        inner = [draw.randrange(1_000), 1_000 * module + stack // len(LIBRARIES)]
        stacks.append(inner + [1_000 * module + draw.randrange(1_000) for _ in range(38)])
    flat = [frame for stack in stacks for frame in stack]
    facts = {"modules": [1, len(paths)], "frames": [0, len(frames)], "stacks": [1, STACKS], "stack_frames": len(flat)}
    rows = {"module_path": paths, "module_build_id": ["ab"] * len(paths), "module_bias": column([0] * len(paths))}
    rows |= {"frame_module": column([frame[0] for frame in frames]), "frame_offset": column([frame[1] for frame in frames])}
    writer.chunk(16, facts, rows | {"stack_length": column([40] * STACKS), "stack_frame": column(flat)})


def write(path, calls):
    """A recording of so many calls; answers the right values."""
    draw, live, rows, held, peak, kept = random.Random(7), [], 0, 0, 0, {}
    with open(path, "wb") as file:
        writer = Writer(file)
        writer.chunk(6, {}, {"pid": 7, "other": {"driver": {"hook": "cupti", "program": "sim"}}})
        native(writer)
        while rows < calls:
            chunk = []
            for order in range(rows + 1, min(rows + CHUNK, calls) + 1):
                if len(live) > 5_000 or live and draw.random() < 0.48:
                    at = draw.randrange(len(live))
                    live[at], live[-1] = live[-1], live[at]
                    address, size, stack = live.pop()
                    held -= size
                    kept[stack % len(LIBRARIES)] -= size
                    chunk.append((2, order, address, 0, stack))
                else:
                    address, size, stack = order << 24, 1 + draw.randrange(1 << 22), draw.randrange(STACKS)
                    live.append((address, size, stack))
                    held += size
                    peak = max(peak, held)
                    kept[stack % len(LIBRARIES)] = kept.get(stack % len(LIBRARIES), 0) + size
                    chunk.append((1, order, address, size, stack))
            call, order, address, size, stack = zip(*chunk)
            facts = {"first": rows, "count": len(chunk), "start_us": order[0], "end_us": order[-1]}
            payload = {"call": column(list(call)), "order": column(list(order)), "time": column(list(order))}
            payload |= {"address": column(list(address)), "bytes": column(list(size))}
            payload["native"] = column([1 + value for value in stack])
            # At least a byte for a column that must be there, as the format says.
            if payload["call"][1] == 0:
                payload["call"] = [0, 1, payload["call"][2], bytes(len(chunk))]
            writer.chunk(14, facts, payload)
            rows += len(chunk)
        writer.chunk(15, {"clean": True, "chunks": writer.count, "devices": [], "driver": rows})
    names = ("PyTorch's caching allocator", "cuBLAS", "NCCL", "sim")
    return {"peak": peak, "end": held, "holders": {names[key]: value for key, value in kept.items()}}


def measured(memlab, path):
    best = None
    for _ in range(REPEAT):
        begun = time.perf_counter()
        child = subprocess.Popen([memlab, "analyze", "--json", str(path)], stdout=subprocess.PIPE)
        text = child.stdout.read()
        _, status, used = os.wait4(child.pid, 0)
        took = time.perf_counter() - begun
        if status:
            sys.exit(f"memlab failed: {status}")
        run = (took, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
        best = min(best or run, run)
    return best, json.loads(text)["traces"][0]["driver"]


def main():
    memlab, sizes = sys.argv[1], [int(size) for size in sys.argv[2:]] or [100_000, 1_000_000, 4_000_000]
    wrong = 0
    for calls in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "calls.msgpack"
            right = write(path, calls)
            size = path.stat().st_size
            (took, cpu, memory), found = measured(memlab, path)
        device = found["devices"][0]
        holders = {row["holder"]: row["end_bytes"] for row in device["holders"]}
        same = (found["calls"], device["peak_bytes"], device["end_bytes"], holders)
        same = same == (calls, right["peak"], right["end"], right["holders"])
        wrong += not same
        rate = f"{calls / took / 1e6:.2f} M calls/s, {size / took / 1e6:.0f} MB/s of {size / 1e6:.0f} MB"
        print(f"{calls:>10,} calls: {took:.2f} s, {cpu:.2f} s CPU, {memory:.0f} MiB; {rate}; {'equal' if same else 'WRONG'}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
