"""What PyTorch, the driver and nvidia-smi say of this process at a moment: the right values for `../layers.py`.

Owns the moments and their JSON line. Nothing may be allocated while a moment is taken: its time then parts the
driver's calls that lie before it from those behind.
"""

import json
import os
import subprocess
import time

import torch


class Truth:
    """The moments of one program, by name; the last one of a name counts."""

    def __init__(self, program):
        self.program, self.moments, self.most = program, {}, 0

    def start(self):
        """The context is up and holds one byte: a first segment, and no work yet."""
        torch.cuda.init()
        self.first = torch.empty(1, dtype=torch.uint8, device="cuda")
        self.take("start")

    def candidate(self):
        """`peak` is taken anew if more is allocated than at any candidate before."""
        allocated = torch.cuda.memory_allocated()
        if allocated > self.most:
            self.most = allocated
            self.take("peak")

    def take(self, name):
        torch.cuda.synchronize()
        stats = torch.cuda.memory_stats()
        free, total = torch.cuda.mem_get_info()
        moment = {"segments": segments(), "reserved": stats["reserved_bytes.all.current"], "allocated": stats["allocated_bytes.all.current"]}
        moment |= {"free": free, "total": total, "time_us": time.time_ns() // 1000}
        self.moments[name] = moment | {"nvidia_smi": nvidia_smi()}

    def tell(self):
        """Ends the program's output with one line of JSON."""
        facts = {"program": self.program, "pid": os.getpid(), "torch": torch.__version__}
        facts["conf"] = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
        peak = torch.cuda.memory_stats()["reserved_bytes.all.peak"]
        print(json.dumps(facts | {"reserved_peak": peak, "moments": self.moments}), flush=True)


def segments():
    """Address, bytes, stream and whether it is expandable, of every segment."""
    try:
        found = torch.cuda.memory_snapshot(include_traces=False)
    except TypeError:  # an older PyTorch: the events come along, at a cost
        found = torch.cuda.memory_snapshot()
    return [[one["address"], one["total_size"], one["stream"], int(one.get("is_expandable", False))] for one in found]


def nvidia_smi():
    """Bytes that nvidia-smi ascribes to this process; None where it does not know processes."""
    words = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    try:
        text = subprocess.run(words, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    rows = [row.split(",") for row in text.splitlines() if row.count(",") == 1]
    used = {pid.strip(): mib.strip() for pid, mib in rows}
    # In a container the process has another id there; a single row can only be ours.
    mib = used.get(str(os.getpid())) or (next(iter(used.values())) if len(used) == 1 else "")
    return int(mib) << 20 if mib.isdigit() else None
