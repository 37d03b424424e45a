"""Holds the driver's calls of a CuPy or JAX program against what its library says that its pool holds.

Usage: pools.py NAME.msgpack TRUTH.json, the last line of `jobs/cupy_job.py` or `jobs/jax_job.py`. Exit code 1: differs.
"""

import json
import sys

import takings
from compare import Trace
from layers import Report, by_module, whole

#: In the path of a module that takes the library's memory.
MODULES = {"cupy": ("cupy",), "jax": ("xla_cuda", "jaxlib")}
#: XLA's allocator may take its memory in parts that it rounds.
NEAR = 0.01
#: What XLA may take beside its pool.
BESIDE = 64 << 20


def sizes(state, library):
    """Bytes of each taking whose innermost module, CUDA's own way apart, is the library's; the largest first."""
    path = lambda row: takings.taker(state.trace, row)
    rows = [row for row in state.takings() if any(word in path(row) for word in MODULES[library])]
    return sorted((row["bytes"] for row in rows), reverse=True)


def compare_cupy(report, found, truth):
    pool = truth["pool_bytes"]
    text = f"{len(found)} takings of CuPy sum up to {sum(found):,}, its pool holds {pool:,}"
    report.check(sum(found) == pool, f"{text} ({truth['used_bytes']:,} in use)")
    report.check(pool >= truth["kept_bytes"], f"the arrays that are kept have {truth['kept_bytes']:,}")


def compare_jax(report, found, truth):
    stats, taken = truth["stats"] or {}, sum(found)
    print("     memory_stats():", {key: stats[key] for key in sorted(stats) if "bytes" in key})
    pool, limit, used = stats.get("pool_bytes"), stats.get("bytes_limit", 0), stats.get("bytes_in_use", 0)
    report.check(taken >= used >= truth["kept_bytes"], f"takings of XLA {taken:,} >= in use {used:,} >= kept {truth['kept_bytes']:,}")
    if truth["preallocate"]:
        first, wanted = (found or [0])[0], pool or limit
        text = f"the preallocation is one taking of {first:,}; pool {pool}, limit {limit:,}, apart by {first - wanted:,}"
        report.check(abs(first - wanted) <= NEAR * wanted, text)
        report.check(len([size for size in found if size > limit / 2]) == 1, f"{len(found)} takings of XLA, one of them more than half of the limit")
    elif pool is not None:
        text = f"{len(found)} takings of XLA sum up to {taken:,}, its pool holds {pool:,}, apart by {taken - pool:,}"
        report.check(pool <= taken <= pool + BESIDE, text)


def main(path, truth_path):
    with open(truth_path) as file:
        truth = json.load(file)
    trace, report = Trace(path), Report()
    whole(report, trace)
    report.check(trace.process.get("pid") == truth["pid"], f"one process: {truth['pid']}, {truth['library']} {truth['version']}")
    state = takings.state_at(trace, truth["time_us"])
    found = sizes(state, truth["library"])
    (compare_cupy if truth["library"] == "cupy" else compare_jax)(report, found, truth)
    if "free" in truth:
        used, taken = truth["total"] - truth["free"], sum(row["bytes"] for row in state.takings())
        report.check(used >= taken, f"device_used {used:,} - takings {taken:,} = context and others {used - taken:,}")
    by_module(state, "then")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
