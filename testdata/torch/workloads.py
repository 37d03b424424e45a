"""Two workloads for the what-if replay, recorded under one setting per process.

Usage: workloads.py NAME LABEL OUTDIR     NAME: vision | routed
Environment: PYTORCH_CUDA_ALLOC_CONF, CAP_BYTES (a cap on the process's reserved bytes).
Writes OUTDIR/NAME.LABEL.json (what PyTorch says) and OUTDIR/NAME.LABEL.pickle.gz (the snapshot).
The requests depend on seeds only, never on the setting.
"""
import gzip, json, os, pickle, random, sys

import torch
import torch.nn as nn
import torch.nn.functional as F

NAME, LABEL, OUT = sys.argv[1:4]
os.makedirs(OUT, exist_ok=True)
torch.manual_seed(0)
DEV = "cuda"


def vision():
    """Images of random sizes, trained and evaluated in turn, with the cache emptied between the two."""
    torch.backends.cudnn.enabled = False
    net = nn.Sequential(nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 48, 3, stride=2, padding=1), nn.ReLU(),
                        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48 * 16, 10)).to(DEV)
    opt = torch.optim.AdamW(net.parameters(), foreach=False)
    rng = random.Random(5)
    kept = []
    for step in range(36):
        x = torch.randn(rng.choice([4, 6, 8]), 3, rng.randint(96, 420), rng.randint(96, 420), device=DEV)
        if step % 9 == 8:
            with torch.no_grad():
                kept.append(net[:4](x).mean((2, 3)))
            torch.cuda.empty_cache()
            continue
        loss = net(x).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 5 == 0:
            kept.append(x[:, :, ::2, ::2].contiguous())


def routed():
    """Tokens sent to experts of random load, and features of random size kept in a window; two streams."""
    rng = random.Random(13)
    side = torch.cuda.Stream()
    with torch.no_grad():
        experts = [torch.randn(1024, 2048, device=DEV, dtype=torch.half) for _ in range(8)]
        window = []
        for step in range(150):
            tokens = torch.randn(rng.randint(512, 12000), 1024, device=DEV, dtype=torch.half)
            cuts = sorted(rng.randint(0, tokens.shape[0]) for _ in range(7))
            parts = torch.tensor_split(tokens, cuts)
            outs = [F.gelu(part @ expert) for part, expert in zip(parts, experts) if part.shape[0]]
            joined = torch.cat(outs)
            del outs, parts
            window.append(joined[: rng.randint(1, joined.shape[0])].clone())
            if len(window) > rng.randint(6, 18):
                window.pop(rng.randrange(len(window)))
            del joined, tokens
            # Work of the side stream: its memory is used there alone, so frees complete at once.
            with torch.cuda.stream(side):
                extra = torch.empty(rng.randint(1, 40) << 20, device=DEV, dtype=torch.uint8).fill_(1)
                more = extra[: extra.numel() // 2].clone()
                del extra, more


facts = {"name": NAME, "label": LABEL, "torch": torch.__version__, "conf": os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")}
cap = os.environ.get("CAP_BYTES")
if cap:
    total = torch.cuda.get_device_properties(0).total_memory
    fraction = (int(cap) + 0.5) / total
    torch.cuda.set_per_process_memory_fraction(fraction)
    facts["cap_bytes"], facts["allowed_bytes"] = int(cap), int(fraction * total)
native = torch.cuda.memory.get_allocator_backend() == "native"
if native:
    torch.cuda.memory._record_memory_history(stacks="python", max_entries=sys.maxsize)
try:
    {"vision": vision, "routed": routed}[NAME]()
except torch.OutOfMemoryError as error:
    facts["oom_message"] = str(error)
torch.cuda.synchronize()


def place(path):
    here = os.path.abspath(__file__)
    if os.path.abspath(path) == here:
        return "/workspace/workloads.py"
    for mark in ("site-packages/", "dist-packages/"):
        if mark in path:
            return "/opt/venv/" + path.split(mark, 1)[1]
    return "/opt/python/" + os.path.basename(path) if path.startswith("/") else path


if native:
    snapshot = torch.cuda.memory._snapshot()
    seen = set()
    for owner in [e for t in snapshot["device_traces"] for e in t] + [b for s in snapshot["segments"] for b in [s, *s["blocks"]]]:
        for frame in owner.get("frames") or []:
            if id(frame) not in seen:
                seen.add(id(frame))
                frame["filename"] = place(frame["filename"])
    facts["events"] = [len(t) for t in snapshot["device_traces"]]
    path = f"{OUT}/{NAME}.{LABEL}.pickle.gz"
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        file.write(pickle.dumps(snapshot))
    facts["pickle_bytes"] = os.path.getsize(path)
facts["stats"] = dict(torch.cuda.memory_stats())
facts["max_allocated"], facts["max_reserved"] = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
facts["allocated"], facts["reserved"] = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
free, total = torch.cuda.mem_get_info()
facts["device_free"], facts["device_total"] = free, total
with open(f"{OUT}/{NAME}.{LABEL}.json", "w") as file:
    json.dump(facts, file, default=str, indent=0, sort_keys=True)
print(NAME, LABEL, facts.get("events"), facts.get("pickle_bytes"), "alloc", facts["max_allocated"], "reserved", facts["max_reserved"],
      "retries", facts["stats"].get("num_alloc_retries"), facts.get("oom_message", "")[:60], flush=True)
