"""The torch calls that the recorder needs: the only place that names them.

Owns the differences between PyTorch releases. A stand-in with the same methods can take its place (the tests
replay recorded snapshots that way). Nothing here writes files or decides when to read. Methods may raise what
torch raises; the callers are ready for it.
"""

import sys

OLDEST = (2, 1)


class Unusable(Exception):
    """Why this process cannot be recorded, in a sentence."""


class Torch:
    """The torch that is in this process. Imported already: memlab never imports it for the job."""

    def __init__(self, torch):
        self._torch = torch
        self._options = {}
        self._clears = True

    # --- before recording

    @property
    def version(self):
        """As `torch.__version__`."""
        return str(self._torch.__version__)

    def version_pair(self):
        """Major and minor."""
        parts = self.version.split("+")[0].split(".")
        return int(parts[0]), int(parts[1])

    def check(self):
        """Raises `Unusable` if nothing can be recorded here. Does not touch the GPU."""
        if self.version_pair() < OLDEST:
            raise Unusable(f"PyTorch {self.version} is older than 2.1, which records no usable history")
        if not self._torch.backends.cuda.is_built():
            raise Unusable("this PyTorch is built without CUDA")

    def when_ready(self, action):
        """Calls `action` as soon as CUDA is in use: now, or at the end of torch's lazy initialisation. Forks stay possible."""
        self._torch.cuda._lazy_call(action)

    def allocator(self):
        """`native` or `cudaMallocAsync`."""
        return self._torch.cuda.memory.get_allocator_backend()

    def is_recording(self):
        """Whether somebody's history is on; None where torch cannot say."""
        asked = getattr(self._torch._C, "_cuda_isHistoryEnabled", None)
        return None if asked is None else bool(asked())

    # --- recording

    def start(self, stacks, context):
        """Turns the history on, with an empty ring."""
        record = self._torch.cuda.memory._record_memory_history
        self._options = {"context": context, "stacks": stacks, "max_entries": sys.maxsize}
        extras = {"clear_history": True, "global_record_annotations": True}
        try:
            record("all", **self._options, **extras)
            self._options.update(extras)
        except TypeError:  # before 2.8
            self._clears = False
            record("all", **self._options)

    def clear(self):
        """Empties the ring and goes on recording."""
        record = self._torch.cuda.memory._record_memory_history
        if not self._clears:
            record(None)
        record("all", **self._options)

    def stop(self):
        """Turns the history off."""
        self._torch.cuda.memory._record_memory_history(None)

    def snapshot(self):
        """What `torch.cuda.memory._snapshot()` returns.

        Turning addresses into frames, torch asks for `torch._inductor`, which is imported on demand, and
        `torch._dynamo` with it: seconds, on whatever thread we are, and an ImportError in the job if it imports
        them at that moment. Nothing of Inductor's can be in a stack before it was imported, so it is hidden.
        """
        lazy = vars(self._torch).get("_lazy_modules")
        hidden = type(lazy) is set and "_inductor" in lazy and "_inductor" not in vars(self._torch)
        if hidden:
            lazy.discard("_inductor")
        try:
            return self._torch.cuda.memory._snapshot()
        finally:
            if hidden:
                lazy.add("_inductor")

    def devices(self):
        """Number of visible devices."""
        return self._torch.cuda.device_count()

    def counters(self, device):
        """`memory_stats()` of a device, flat, also while torch is still initialising."""
        return flat(self._torch._C._cuda_memoryStats(device))

    def counted(self, device, paths):
        """Some counters by path (`("allocation", "all", "freed")`): a fast `counters`."""
        nested = self._torch._C._cuda_memoryStats(device)
        return tuple(nested[first][second][third] for first, second, third in paths)

    def driver_memory(self, device):
        """(free, total) bytes as the driver says."""
        return self._torch.cuda.mem_get_info(device)

    def observe_oom(self, observer):
        """Calls `observer(device, requested, limit, free)` at every OOM, before the exception is raised. For good."""
        self._torch._C._cuda_attach_out_of_memory_observer(observer)

    # --- facts

    def facts(self):
        """Versions and devices. Needs CUDA to be initialised."""
        devices = []
        for device in range(self.devices()):
            found = self._torch.cuda.get_device_properties(device)
            devices.append({"device": device, "name": found.name, "total_bytes": found.total_memory})
        return {"torch_version": self.version, "cuda_version": self._torch.version.cuda, "devices": devices}

    def memory_fraction(self, device):
        """The cap set with `set_per_process_memory_fraction`, or None where torch cannot say."""
        asked = getattr(self._torch.cuda.memory, "get_per_process_memory_fraction", None)
        return None if asked is None else asked(device)


def flat(nested, prefix=""):
    """`{"allocation": {"all": {"current": 1}}}` as `{"allocation.all.current": 1}`."""
    result = {}
    for key, value in nested.items():
        if isinstance(value, dict):
            result.update(flat(value, f"{prefix}{key}."))
        elif isinstance(value, int):
            result[prefix + key] = value
    return result
