"""Microseconds of a driver call (the stand-in's) below 22 frames of Python and more than 80 native ones.

Usage: cost.py LIBCUDA held|released|thread [ROUNDS]   the interpreter is held around calls, let go, or let go on a
second thread. The best of ROUNDS rounds of 1000 pairs of calls counts: others use the machine, too.
"""

import ctypes
import sys
import threading
import time

PAIRS = 1000


def pairs(alloc, free):
    """Microseconds a call, the loop included."""
    out = ctypes.c_uint64()
    where, size = ctypes.byref(out), ctypes.c_size_t(512)
    best = float("inf")
    for _ in range(int(sys.argv[3]) if len(sys.argv) > 3 else 60):
        start = time.perf_counter()
        for _ in range(PAIRS):
            alloc(where, size)
            free(out)
        best = min(best, time.perf_counter() - start)
    return best / PAIRS / 2 * 1e6


def deep(levels, work):
    """Calls `work` below `levels` functions of Python, each with frames of C around it."""
    for level in range(levels):
        names = {"inner": work}
        exec(compile(f"def level_{level}(): return next(map(lambda _: inner(), (0,)))", f"level-{level}.py", "exec"), names)
        work = names[f"level_{level}"]
    return work()


def main():
    load = ctypes.PyDLL if sys.argv[2] == "held" else ctypes.CDLL
    cuda = load(sys.argv[1])
    cuda.cuInit(0)
    context = ctypes.c_void_p()
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    cuda.cuCtxSetCurrent(context)
    found = []
    work = lambda: found.append(deep(9, lambda: pairs(cuda.cuMemAlloc_v2, cuda.cuMemFree_v2)))
    if sys.argv[2] == "thread":
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    else:
        work()
    print(f"{found[0]:.2f}")


main()
