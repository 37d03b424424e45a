"""memlab against other readers of the same snapshot, in one run: CPython's pickle, and PyTorch's own tools.

    python3 benches/peers.py target/release/memlab SNAPSHOT.pickle [--trace SNAPSHOT.msgpack] [--viz _memory_viz.py]

`torch/cuda/_memory_viz.py` is a file that runs by itself: it is taken from the PyTorch of the Python that runs this, or
from --viz; without it, only CPython is compared. No GPU is needed. Each program is started anew and the best of REPEAT runs counts. Peers are held against the pickle: reading
against reading (`memlab info`), everything else against the whole `memlab analyze --json`. Exits 1 when a bar does not
hold.
"""

import argparse
import importlib.util
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

REPEAT = 5
#: How many times faster memlab has to be than each peer.
BAR = 10.0
LOAD = "import pickle, sys; pickle.load(open(sys.argv[1], 'rb'))"


def measured(words):
    """Best wall time in seconds, its CPU seconds, and the most memory in MiB."""
    best = None
    for _ in range(REPEAT):
        begun = time.perf_counter()
        child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        errors = child.stderr.read()
        _, status, used = os.wait4(child.pid, 0)
        took = time.perf_counter() - begun
        if status != 0:
            raise SystemExit(f"{words} failed: {errors.decode(errors='replace')[-500:]}")
        run = (took, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
        best = min(best or run, run)
    return best


def memory_viz():
    """PyTorch's own tool, a file that runs by itself."""
    found = importlib.util.find_spec("torch")
    if found is None or not found.submodule_search_locations:
        return None
    path = Path(found.submodule_search_locations[0]) / "cuda" / "_memory_viz.py"
    return path if path.exists() else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("memlab")
    parser.add_argument("snapshot")
    parser.add_argument("--trace")
    parser.add_argument("--viz", type=Path)
    options = parser.parse_args()
    memlab, snapshot, trace = options.memlab, options.snapshot, options.trace
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    html = Path(snapshot).with_suffix(".peers.html")
    runs = [
        ("memlab info", [memlab, "info", snapshot]),
        ("memlab analyze --json", [memlab, "analyze", "--json", snapshot]),
        ("CPython loads it", [sys.executable, "-c", LOAD, snapshot]),
    ]
    if trace:
        runs.insert(2, ("memlab analyze --json, the trace", [memlab, "analyze", "--json", trace]))
    tool = options.viz or memory_viz()
    if tool:
        runs.append(("_memory_viz.py stats", [sys.executable, str(tool), "stats", snapshot]))
        for plot in ("segment_plot", "trace_plot"):
            runs.append((f"_memory_viz.py {plot}", [sys.executable, str(tool), plot, snapshot, "-o", str(html)]))
    else:
        print("no PyTorch here: _memory_viz.py is not compared", file=sys.stderr)
    found = {name: measured(words) for name, words in runs}
    html.unlink(missing_ok=True)
    print("| program | wall, s | CPU, s | peak, MiB | against memlab |")
    print("| --- | ---: | ---: | ---: | ---: |")
    holds = True
    for name, (wall, cpu, peak) in found.items():
        mine = found["memlab info" if name == "CPython loads it" else "memlab analyze --json"][0]
        ratio = "" if name.startswith("memlab") else f"{wall / mine:.1f} x"
        holds &= name.startswith("memlab") or wall / mine >= BAR
        print(f"| {name} | {wall:.2f} | {cpu:.2f} | {peak:.0f} | {ratio} |")
    print(f"every peer at least {BAR:g} times slower: {'yes' if holds else 'NO'}")
    return 0 if holds else 1


if __name__ == "__main__":
    raise SystemExit(main())
