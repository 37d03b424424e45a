#!/usr/bin/env python3
"""Whole-process measurements of a release build, side by side with CPython merely loading the same files.

    python3 benches/whole_process.py target/release/memlab [--events 10000000] [--repeat 3] [--data DIR]

Builds nothing. Writes its inputs to DIR (default: target/bench-data) unless they are there: `big` of testdata unpacked and
converted, and a generated snapshot with its converted trace. Prints a Markdown table, then the bars and whether
they hold; exits 1 when one does not. Best of `--repeat` runs; CPU is user plus system time of all threads.
"""

import argparse
import gzip
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOAD = "import pickle, sys; pickle.load(open(sys.argv[1], 'rb'))"


class Measured:
    def __init__(self, wall, cpu, peak):
        self.wall, self.cpu, self.peak = wall, cpu, peak


def measure(arguments, repeat, output=os.devnull):
    """Runs a program `repeat` times; the run with the least wall time counts, and the most memory."""
    best, peak = None, 0
    for _ in range(repeat):
        started = time.perf_counter()
        with open(output, "wb") as out:
            child = subprocess.Popen([str(a) for a in arguments], stdout=out)
            _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            sys.exit("%s exited with %d" % (" ".join(map(str, arguments)), child.returncode))
        peak = max(peak, usage.ru_maxrss * 1024)
        if best is None or wall < best.wall:
            best = Measured(wall, usage.ru_utime + usage.ru_stime, 0)
    best.peak = peak
    return best


def reading(memlab, trace, repeat):
    """Seconds that reading a trace takes on one thread, as `--verbose` tells."""
    units = {"\u00b5s": 1e-6, "ms": 1e-3, "s": 1.0}
    times = []
    for _ in range(repeat):
        command = [memlab, "lines", "--verbose", "--no-progress", "--color", "never", trace]
        told = subprocess.run(
            list(map(str, command)), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env=dict(os.environ, RAYON_NUM_THREADS="1")).stderr.decode()
        number, unit = re.search(r" events\) in ([0-9.]+)(\u00b5s|ms|s)", told).groups()
        times.append(float(number) * units[unit])
    return min(times)


def inputs(memlab, events, folder):
    """(name, events, pickle, trace) of `big` and of the generated file."""
    folder.mkdir(parents=True, exist_ok=True)
    big = folder / "big.pickle"
    if not big.exists():
        with gzip.open(ROOT / "testdata/torch/big.pickle.gz") as packed, open(big, "wb") as plain:
            shutil.copyfileobj(packed, plain)
    generated = folder / ("generated-%d.pickle" % events)
    if not generated.exists():
        program = ROOT / "testdata/generate.py"
        subprocess.run([sys.executable, program, str(events), generated], check=True, stderr=subprocess.DEVNULL)
    files = []
    for name, count, pickle in (("big", 592_258, big), ("generated", events, generated)):
        trace = pickle.with_suffix(".msgpack")
        subprocess.run([memlab, "convert", "--quiet", "--force", pickle, trace], check=True)
        files.append((name, count, pickle, trace))
    return files


def row(label, events, path, measured, reference):
    size = path.stat().st_size
    cells = [
        label,
        "%.1f" % (size / 1e6),
        "%.2f" % measured.wall,
        "%.2f" % measured.cpu,
        "%.1f" % (events / measured.wall / 1e6),
        "%.0f" % (size / measured.wall / 1e6),
        "%.0f" % (measured.peak / 2**20),
        "%.1f" % (measured.peak / size),
        "%.1f x" % (reference.wall / measured.wall),
    ]
    print("| " + " | ".join(cells) + " |", flush=True)


def machine():
    model = "unknown processor"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return "%d cores, %s; %s; CPython %s" % (
        os.cpu_count(), model, platform.platform(terse=True), platform.python_version())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("memlab", type=Path)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--data", type=Path, default=ROOT / "target/bench-data")
    options = parser.parse_args()
    memlab = options.memlab.resolve()
    bars, ratios = [], []
    print("%s\n" % machine())
    print("| what | file, MB | wall, s | CPU, s | M events/s | MB/s | peak, MiB | peak / file | against CPython |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, events, pickle, trace in inputs(memlab, options.events, options.data):
        repeat = options.repeat
        python = measure([sys.executable, "-c", LOAD, pickle], 1 if events > 1_000_000 else repeat)
        row("CPython loads %s.pickle" % name, events, pickle, python, python)
        # `info` reads a whole pickle and computes next to nothing: reading alone. Of a trace it counts the
        # events without decoding them, so reading is timed by the program itself.
        read_pickle = measure([memlab, "info", "--json", pickle], repeat)
        row("memlab reads %s.pickle" % name, events, pickle, read_pickle, python)
        info = measure([memlab, "info", "--json", trace], repeat)
        row("memlab info %s.msgpack" % name, events, trace, info, python)
        from_pickle = measure([memlab, "analyze", "--json", pickle], repeat)
        row("memlab analyze --json %s.pickle" % name, events, pickle, from_pickle, python)
        from_trace = measure([memlab, "analyze", "--json", trace], repeat)
        row("memlab analyze --json %s.msgpack" % name, events, trace, from_trace, python)
        size = pickle.stat().st_size
        bars.append(("%s: at least 5 times faster than CPython loads" % name, python.wall / from_pickle.wall, ">=", 5))
        bars.append(("%s: MB/s of pickle read per CPU second" % name, size / read_pickle.cpu / 1e6, ">=", 400))
        bars.append(("%s: reading, trace against pickle, CPU" % name, read_pickle.cpu / reading(memlab, trace, repeat), ">=", 3))
        bars.append(("%s: seconds of info from the trace" % name, info.wall, "<", 0.5))
        ratios.append((name, from_pickle.cpu / from_trace.cpu))
        if name == "big":
            bars.append(("big: CPU seconds", from_pickle.cpu, "<", 0.5))
            bars.append(("big: peak memory / unpacked file", from_pickle.peak / size, "<", 4))
            # All threads' time is counted, so these are per core.
            bars.append(("big: M events/s and core from the pickle", events / from_pickle.cpu / 1e6, ">=", 1.5))
            bars.append(("big: M events/s and core from the trace", events / from_trace.cpu / 1e6, ">=", 5))
        else:
            scale = events / 10_000_000
            bars.append(("generated: seconds from the pickle", from_pickle.wall / scale, "<", 10))
            bars.append(("generated: seconds from the trace", from_trace.wall / scale, "<", 5))
            bars.append(("generated: peak GiB", max(from_pickle.peak, from_trace.peak) / 2**30, "<", 2))
    print("\n| bar | measured | holds |\n| --- | ---: | --- |")
    failed = 0
    for label, value, sign, limit in bars:
        holds = value >= limit if sign == ">=" else value < limit
        failed += not holds
        print("| %s %s %g | %.2f | %s |" % (label, sign, limit, value, "yes" if holds else "**no**"))
    for name, ratio in ratios:
        print("\nWhole analysis of %s, trace against pickle: %.1f times less CPU." % (name, ratio))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
