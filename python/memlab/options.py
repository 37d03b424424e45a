"""What a recording can be told, and where it writes.

Owns the defaults and the file name's placeholders. Reads the environment that torchrun sets; touches no file.
"""

import os
import sys
from dataclasses import dataclass, fields

DEFAULT_PATH = "memlab-{rank}.msgpack"


@dataclass(frozen=True)
class Options:
    """See docs/emitter.md for the meaning of each."""

    #: `python`, or `all` for C++ frames too (slower by far when read).
    stacks: str = "python"
    #: `all`: frees have the stack of the freeing line; `alloc`: only allocations have one (cheaper).
    context: str = "all"
    #: Set the allocator's metadata to the running module, forward and backward.
    modules: bool = True
    #: Find steps and phases through the optimizers.
    steps: bool = True
    #: Name parameters, gradients, optimizer state and other tensors at an OOM and at the end.
    census: bool = True
    #: Look for what holds the largest other tensors.
    holders: bool = True
    #: Handle SIGTERM and SIGUSR1.
    signals: bool = True
    #: Seconds after which events are read at the latest.
    interval: float = 2.0
    #: Events after which they are read.
    max_events: int = 10_000
    #: Record the command line and the host's name.
    host: bool = False

    @classmethod
    def of(cls, values):
        """From keyword arguments; an unknown one is a `TypeError` that names those that exist."""
        names = [field.name for field in fields(cls)]
        unknown = sorted(set(values) - set(names))
        if unknown:
            raise TypeError(f"memlab knows no option {', '.join(unknown)}; it knows {', '.join(names)}")
        options = cls(**values)
        if options.stacks not in ("python", "all"):
            raise ValueError("stacks must be 'python' or 'all'")
        if options.context not in ("all", "alloc", "state"):
            raise ValueError("context must be 'all', 'alloc' or 'state'")
        if options.interval <= 0 or options.max_events <= 0:
            raise ValueError("interval and max_events must be positive")
        return options


def number_from(name):
    """An environment variable as a number, or None."""
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else None


def place():
    """rank, local_rank and world_size as torchrun (or a scheduler) says; absent keys are not known."""
    names = {"rank": "RANK", "local_rank": "LOCAL_RANK", "world_size": "WORLD_SIZE"}
    found = {key: number_from(name) for key, name in names.items()}
    return {key: value for key, value in found.items() if value is not None}


def file_name(path):
    """`path` with its placeholders filled. Ranks and child processes that would overwrite each other get names of their own."""
    path = os.fspath(path)
    where = place()
    wanted = dict(rank=where.get("rank", 0), local_rank=where.get("local_rank", 0), pid=os.getpid())
    found = path
    for key, value in wanted.items():
        found = found.replace("{%s}" % key, str(value))
    stem, suffix = os.path.splitext(found)
    if where.get("world_size", 1) > 1 and "rank}" not in path:
        stem += f"-{wanted['rank']}"
    if _is_child() and "{pid}" not in path:
        stem += f"-{wanted['pid']}"
    return stem + suffix


def _is_child():
    """Whether multiprocessing made this process."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None
