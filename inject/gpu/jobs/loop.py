"""What PyTorch's work costs: lines `NAME MICROSECONDS COUNT DRIVER_CALLS`, the time of one and the calls that one makes.

Usage: loop.py SEGMENTS STEPS
"""

import sys
import time

import torch

from cnn import setup, train_one_step


def segments(count):
    """A segment taken and given back: one cudaMalloc, one cudaFree."""
    for _ in range(count):
        tensor = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
        del tensor
        torch.cuda.empty_cache()


def steps(work, count):
    """Steps of training that live on the cache: no driver call at all."""
    for _ in range(count):
        train_one_step(*work)


def timed(name, calls, count, work, *arguments):
    torch.cuda.synchronize()
    start = time.perf_counter()
    work(*arguments, count)
    torch.cuda.synchronize()
    print(name, f"{(time.perf_counter() - start) / count * 1e6:.3f}", count, calls, flush=True)


def main(segment_count, step_count):
    segments(5)
    timed("torch_segment", 2, segment_count, segments)
    work = setup()
    steps(work, 10)
    timed("torch_step", 0, step_count, steps, work)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
