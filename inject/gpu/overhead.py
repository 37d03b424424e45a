"""What the recorder costs: programs without it and with it, in turns; the best of the rounds counts.

Usage: overhead.py MEMLAB JOBS SCRATCH SECONDS, where JOBS is the folder `jobs` with `pairs` built in it, SCRATCH one for
recordings, and SECONDS what all may take: a round is begun only if one as long as the last one fits. Exit code 1: a
program failed, or a recording lacks calls.
"""

import os
import subprocess
import sys
import time
import zlib

import msgpack

ROUNDS = 3
STACKS = (None, "none", "native", "all")
#: A loop of `pairs` ends after so many seconds, however slow the driver is.
LOOP_S = 2


def programs(jobs):
    found = {"loop": [sys.executable, os.path.join(jobs, "loop.py"), "500", "200"]}
    pairs = os.path.join(jobs, "pairs")
    if os.path.isfile(pairs):
        found["pairs"] = [pairs, "20000", "100000", str(LOOP_S)]
    else:
        print("no", pairs, "(no nvcc?): left out")
    return found


def run(words, limit):
    """Rows `(name, microseconds, count, calls)` that the program prints."""
    output = subprocess.run(words, capture_output=True, text=True, timeout=max(limit, 1))
    if output.returncode:
        raise RuntimeError(f"{' '.join(words)}: exit code {output.returncode}\n{output.stderr[-2000:]}")
    rows = [line.split() for line in output.stdout.splitlines()]
    return [(row[0], float(row[1]), int(row[2]), int(row[3])) for row in rows if len(row) == 4]


def recorded(path):
    """Rows of driver calls, warnings, bytes, and nanoseconds that were the recorder's own (all, worst)."""
    rows, lost, own = None, 0, (0, 0)
    with open(path, "rb") as file:
        for _, kind, codec, _, facts, payload, _ in msgpack.Unpacker(file, strict_map_key=False, max_buffer_size=1 << 30):
            if kind == 15:
                rows = facts.get("driver", 0)
            if kind == 10:
                lost += 1
            if kind == 6:
                raw = zlib.decompress(payload) if codec == 2 else payload
                driver = msgpack.unpackb(raw, strict_map_key=False).get("other", {}).get("driver", {})
                own = (driver.get("own_ns", 0), driver.get("own_max_ns", 0))
    return rows, lost, os.path.getsize(path), own


def one(memlab, words, name, stacks, scratch, limit):
    """One run. A recording that lacks calls would make the recorder look cheap."""
    if stacks is None:
        return run(words, limit), None
    path = os.path.join(scratch, f"{name}.msgpack")
    rows = run([memlab, "--quiet", "record", "--hook", "cupti", "--stacks", stacks, "-o", path, "--", *words], limit)
    calls, lost, size, own = recorded(path)
    least = sum(count * calls_of_one for _, _, count, calls_of_one in rows)
    if calls is None or calls < least or lost:
        raise RuntimeError(f"{path}: {calls} rows (none: not closed), {lost} warnings, where the program made {least} calls at least")
    return rows, (calls, size, own)


class Results:
    """Best time of each work by stacks, the recorder's own nanoseconds a call, and the last recording of each program."""

    def __init__(self):
        self.best, self.sizes, self.own = {}, {}, {}

    def take(self, turn, name, stacks, rows, size):
        for work, microseconds, count, calls in rows:
            times = self.best.setdefault((work, calls), {})
            times[stacks] = min(times.get(stacks, microseconds), microseconds)
            print(f"     round {turn + 1} {work:14} stacks {stacks or '(no recorder)':14} {microseconds:10.3f} us, {count} times", flush=True)
        if size:
            calls, _, (own, worst) = size
            print(f"     round {turn + 1} {name:14} stacks {stacks:14} {own / 1000 / max(calls, 1):10.3f} us a call are the recorder's own, the worst {worst / 1000:.1f}", flush=True)
            self.own[(name, stacks)] = min(self.own.get((name, stacks), own / max(calls, 1)), own / max(calls, 1))
            self.sizes[(name, stacks)] = size


def measure(results, memlab, jobs, scratch, seconds):
    end, last = time.monotonic() + seconds, 0
    todo = programs(jobs)
    for turn in range(ROUNDS):
        start = time.monotonic()
        if turn and start + last > end:
            print(f"     time for {turn} of {ROUNDS} rounds")
            return
        for name, words in todo.items():
            for stacks in STACKS:
                rows, size = one(memlab, words, name, stacks, scratch, end - time.monotonic())
                results.take(turn, name, stacks, rows, size)
        last = time.monotonic() - start


def show(results):
    print("\nmicroseconds of one, the best of the rounds; in brackets what each of its driver calls costs more")
    print("(torch_step makes none: there it is what a step costs more)")
    print(f"{'':16}{'without':>12}" + "".join(f"{stacks:>24}" for stacks in STACKS[1:]))
    for (work, calls), times in results.best.items():
        more = lambda stacks: (times[stacks] - times[None]) / (calls or 1)
        cells = [f"{times[stacks]:.3f} ({more(stacks):+.3f})" if stacks in times else "-" for stacks in STACKS[1:]]
        print(f"{work:16}{times[None]:>12.3f}" + "".join(f"{cell:>24}" for cell in cells))
    print("microseconds of the recorder's own a call, over the whole program, its first calls included; the best of the rounds")
    for (name, stacks), own in results.own.items():
        print(f"{name:16}stacks {stacks:8}{own / 1000:10.3f}")
    for (name, stacks), (calls, size, _) in results.sizes.items():
        print(f"recording of {name}, stacks {stacks}: {calls:,} rows, {size:,} bytes, {size / max(calls, 1):.1f} a row")


def main(memlab, jobs, scratch, seconds):
    results, status = Results(), 0
    try:
        measure(results, memlab, jobs, scratch, float(seconds))
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        print("DIFF", error)
        status = 1
    show(results)
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
