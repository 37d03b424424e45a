"""What is said once about the process: versions, devices, place, options.

Owns the payload of the process chunk. The command line and the host's name only when asked for.
"""

import os
import platform
import sys
import time

from .options import place


def of_process(options, version):
    """What is known before CUDA is."""
    other = {
        "time_base": "unix microseconds; event times are torch's, marks and samples the system clock's",
        "recording": {"stacks": options.stacks, "context": options.context, "modules": options.modules},
        "started_us": now_us(),
    }
    conf = os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or os.environ.get("PYTORCH_ALLOC_CONF")
    if conf:
        other["alloc_conf"] = conf
    if options.host:
        other["command"] = list(map(str, sys.argv))
        other["host"] = platform.node()
    facts = {"pid": os.getpid(), "python_version": platform.python_version(), "writer": f"memlab {version}"}
    return {**facts, **place(), "other": other}


def of_backend(backend, devices):
    """What torch and the driver say; whatever fails is left out."""
    facts, other = {}, {}
    for action in (lambda: facts.update(backend.facts()), lambda: other.update(backend=backend.allocator())):
        try:
            action()
        except Exception:
            pass
    other.update(of_limits(backend, devices))
    return facts, other


def of_limits(backend, devices):
    """The caps in force, which a job may set at any time."""
    try:
        fractions = {str(device): backend.memory_fraction(device) for device in devices}
    except Exception:
        return {}
    known = {device: value for device, value in fractions.items() if value is not None}
    return {"memory_fraction": known} if known else {}


def now_us():
    """The system clock in microseconds."""
    return time.time_ns() // 1000
