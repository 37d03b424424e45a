"""Faults that people run into, and healthy programs that look like them, recorded on a CUDA device.

Usage: faults.py NAME OUTDIR      one program per process; `faults.py --list` names all.
Writes OUTDIR/NAME.pickle.gz (PyTorch's snapshot, file names of frames shortened) and OUTDIR/NAME.json (what
PyTorch and the driver said in the same process). What a program does wrong stands in its first line.
"""
import collections, copy, ctypes, gc, gzip, json, os, pickle, sys, weakref

CONF = {"rounding_waste": "roundup_power2_divisions:2"}
NAME = sys.argv[1] if len(sys.argv) > 1 else "--list"
if NAME in CONF:
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = CONF[NAME]

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

MIB, GIB = 1 << 20, 1 << 30
DEV = "cuda"
FACTS, PROGRAMS = {}, {}
SITE = os.path.dirname(os.path.dirname(torch.__file__))
HERE = os.path.dirname(os.path.abspath(__file__))


def program(fn):
    PROGRAMS[fn.__name__] = fn
    return fn


def shortened(name):
    return name.replace(SITE, "/opt/venv/lib/python3.12/site-packages").replace(HERE, "/workspace")


def dump(out, name=None):
    name = name or NAME
    gc.disable()  # what the collector frees after the snapshot would be in the counters only
    snapshot, stats = torch.cuda.memory._snapshot(), dict(torch.cuda.memory_stats())
    seen = set()
    for trace in snapshot["device_traces"]:
        for event in trace:
            shorten(event.get("frames", ()), seen)
    for segment in snapshot["segments"]:
        shorten(segment.get("frames", ()), seen)
        for block in segment["blocks"]:
            shorten(block.get("frames", ()), seen)
    with open(f"{out}/{name}.pickle.gz", "wb") as file:
        file.write(gzip.compress(pickle.dumps(snapshot, 4), 9, mtime=0))
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    FACTS.update(
        name=name, device=torch.cuda.current_device(), torch=torch.__version__, alloc_conf=os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""),
        stats=stats, max_allocated=torch.cuda.max_memory_allocated(),
        max_reserved=torch.cuda.max_memory_reserved(), device_used=total - free, device_total=total,
        events=[len(trace) for trace in snapshot["device_traces"]],
    )
    with open(f"{out}/{name}.json", "w") as file:
        json.dump(FACTS, file, indent=1, sort_keys=True)


def shorten(frames, seen):
    for frame in frames:
        if id(frame) not in seen:
            seen.add(id(frame))
            frame["filename"] = shortened(frame["filename"])


def cap(bytes_):
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(bytes_ / total)
    FACTS["cap_bytes"] = bytes_


def mlp(width=1024, depth=6, bias=True):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width, bias=bias), nn.GELU()]
    return nn.Sequential(*layers).to(DEV)


def mib(n):
    return torch.empty(n * MIB, dtype=torch.uint8, device=DEV)


# ---------------------------------------------------------------- faults


@program
def graph_in_eval():
    """Evaluation without no_grad, with batches twice as large as in training."""
    net, opt = mlp(), None
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    for step in range(6):
        loss = net(torch.randn(2048, 1024, device=DEV)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        del loss
    for step in range(6):
        loss = net(torch.randn(4096, 1024, device=DEV)).square().mean()
        print(float(loss))
        del loss


@program
def checkpoint_each_layer():
    """Every single Linear is checkpointed by itself: the saved inputs are as large as what they replace."""
    train_checkpointed(mlp(depth=8), 1)


@program
def checkpoint_blocks():
    """Checkpointing as it should be: four blocks of four modules. Healthy."""
    train_checkpointed(mlp(depth=8), 4)


def train_checkpointed(net, size):
    parts = [net[i:i + size] for i in range(0, len(net), size)]
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    for step in range(5):
        x = torch.randn(4096, 1024, device=DEV, requires_grad=True)
        for part in parts:
            x = checkpoint(part, x, use_reentrant=False)
        loss = x.square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        del x, loss


@program
def step_overlap():
    """The large output of a step stays in its variable while the next step's forward runs."""
    net = mlp(depth=3)
    head = nn.Linear(1024, 16384).to(DEV)
    opt = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=1e-3)
    for step in range(8):
        x = torch.randn(2048, 1024, device=DEV)
        out = head(net(x))
        loss = out.square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


@program
def graph_overlap():
    """Outputs are computed with a graph that nobody uses; the old graph lives until the new one stands."""
    net = mlp(depth=8)
    out = None
    for step in range(8):
        out = net(torch.randn(4096, 1024, device=DEV))


@program
def pending_free():
    """Buffers are used on a busy side stream (record_stream) and freed at once: the frees complete late."""
    side = torch.cuda.Stream()
    keep = mib(2048)
    for round_ in range(3):
        with torch.cuda.stream(side):
            torch.cuda._sleep(int(4e8))
        for layer in range(12):
            shard = mib(192)
            shard.record_stream(side)
            del shard
        torch.cuda.synchronize()
        mib(1)


@program
def hooks_kept():
    """A forward hook appends every layer's output to a list, under no_grad."""
    net, kept = mlp(depth=3), []
    for module in net:
        if isinstance(module, nn.Linear):
            module.register_forward_hook(lambda module, args, output: kept.append(output))
    with torch.no_grad():
        for step in range(20):
            net(torch.randn(512, 1024, device=DEV))


@program
def small_leak():
    """A scalar tensor of every step is kept for a plot: 512 bytes a step."""
    net, history = mlp(depth=3), []
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for step in range(40):
        loss = net(torch.randn(256 + 64 * (step % 5), 1024, device=DEV)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        history.append(loss.detach())


@program
def hidden_state_kept():
    """A recurrent state is carried over without detach: every step's graph stays (retain_graph)."""
    cell = nn.GRUCell(256, 512).to(DEV)
    opt = torch.optim.SGD(cell.parameters(), lr=1e-4)
    state = torch.zeros(256, 512, device=DEV)
    for step in range(16):
        state = cell(torch.randn(256, 256, device=DEV), state)
        loss = state.square().mean()
        opt.zero_grad()
        loss.backward(retain_graph=True)


@program
def models_in_cycles():
    """A new model per trial; a hook refers to its own model, so only the collector frees it. Collected every 6th."""
    gc.disable()
    for trial in range(18):
        net = mlp(width=512, depth=4)
        net.register_forward_hook(lambda module, args, output, net=net: None)
        net(torch.randn(128, 512, device=DEV)).sum().backward()
        del net
        if trial % 6 == 5:
            gc.collect()


@program
def autocast_cache():
    """One autocast around all calls: the half copies of the weights stay until it ends."""
    net = mlp(width=2048, depth=8)
    with torch.autocast("cuda", torch.float16), torch.enable_grad():
        for call in range(12):
            out = net(torch.randn(64, 2048, device=DEV))
            del out
    mib(1)


@program
def staircase_cache():
    """Ever larger buffers, each freed before the next: all of it stays in the cache."""
    for size in (400, 500, 600, 700):
        buffer = mib(size)
        del buffer


@program
def ascending_batches():
    """Short sequences first: each batch is larger than every cached block, a part of each is kept."""
    kept = []
    for n in range(1, 13):
        x = mib(64 * n)
        kept.append(x[: 4 * MIB].clone())
        del x


@program
def avoidable_growth():
    """A comb of kept and dropped halves; then a request that the holes would serve together."""
    kept, dropped = [], []
    for i in range(32):
        block = mib(64)
        del block
        kept.append(mib(32))
        dropped.append(mib(32))
    del dropped
    big = mib(576)


@program
def benchmark_first_step():
    """cudnn.benchmark tries algorithms with large workspaces in the first step only."""
    torch.backends.cudnn.benchmark = True
    net = nn.Sequential(nn.Conv2d(64, 256, 5, padding=2), nn.ReLU(), nn.Conv2d(256, 64, 5, padding=2)).to(DEV)
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    for step in range(5):
        loss = net(torch.randn(16, 64, 96, 96, device=DEV)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


@program
def ddp_buckets():
    """DistributedDataParallel with one rank: its buckets lie beside the parameters for the whole run."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group("nccl", rank=0, world_size=1)
    net = nn.parallel.DistributedDataParallel(mlp(width=2048, depth=6), device_ids=[0])
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    for step in range(5):
        loss = net(torch.randn(256, 2048, device=DEV)).square().mean()
        opt.zero_grad(set_to_none=False)
        loss.backward()
        opt.step()


@program
def rounding_waste():
    """roundup_power2_divisions:2 rounds every request up to the next half power of two."""
    kept = [torch.empty(int((1 + 0.06 * (i % 3)) * 4 * MIB) + 4096, dtype=torch.uint8, device=DEV) for i in range(60)]


@program
def flush_by_allocator():
    """Close under the cap, sizes alternate: the failing cudaMalloc throws the cache away, in every step."""
    cap(2 * GIB)
    keep = mib(700)
    for step in range(8):
        for size in (110, 230, 310):
            parts = [mib(size + 7 * i + step % 2) for i in range(780 // size)]
            del parts


@program
def capacity_real():
    """More is kept than the device has; no cap."""
    kept = []
    while True:
        kept.append(mib(4096))


@program
def fragmentation_real():
    """Holes of 1,968 MiB, pinned by 80 MiB each; 36 GiB are asked for. No cap."""
    filler = mib(64 * 1024)
    temporary = [mib(2048) for _ in range(24)]
    del temporary
    holes, kept = [], []
    for i in range(24):
        holes.append(mib(1968))
        kept.append(mib(80))
    del holes
    mib(36 * 1024)


@program
def outside_real():
    """Something else in the process holds 100 GiB of the device, not through PyTorch."""
    torch.zeros(1, device=DEV)
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if "libcudart" in line}
    runtime, pointer = ctypes.CDLL(sorted(paths)[0]), ctypes.c_void_p()
    assert runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(100 * GIB)) == 0
    kept = []
    while True:
        kept.append(mib(2048))


@program
def huge_request():
    """A shape with a mistake in it: 200 GiB at once."""
    net = mlp(depth=2)
    x = torch.randn(1024, 1024, device=DEV)
    net(x)
    torch.empty(200 * GIB, dtype=torch.uint8, device=DEV)


@program
def backward_oom_kept():
    """Out of memory inside backward; the exception object is kept, and what the pass had allocated with it."""
    cap(1200 * MIB)
    net = mlp(width=2048, depth=6)
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    failures = []
    for step, batch in enumerate([1024, 1024, 1024, 9000, 1024, 1024, 1024]):
        try:
            loss = net(torch.randn(batch, 2048, device=DEV)).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        except torch.OutOfMemoryError as error:
            FACTS.setdefault("oom_messages", []).append(str(error))
            failures.append(error)


# ---------------------------------------------------------------- healthy


@program
def oom_handled():
    """Out of memory, handled well: the batch is halved, and nothing of the failed step is kept. Healthy after it."""
    cap(1200 * MIB)
    net = mlp(width=2048, depth=6)
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    batch = 9000
    for step in range(8):
        try:
            attempt(net, opt, batch)
        except torch.OutOfMemoryError as error:
            FACTS.setdefault("oom_messages", []).append(str(error))
            batch //= 2


def attempt(net, opt, batch):
    loss = net(torch.randn(batch, 2048, device=DEV)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()


@program
def accumulation():
    """Gradients are accumulated over 4 micro-batches; every 4th step evaluates. Healthy."""
    net = mlp(depth=3)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for step in range(12):
        for micro in range(4):
            loss = net(torch.randn(256, 1024, device=DEV)).square().mean() / 4
            loss.backward()
        opt.step()
        opt.zero_grad()
        if step % 4 == 3:
            with torch.no_grad():
                for batch in range(3):
                    print(float(net(torch.randn(512, 1024, device=DEV)).square().mean()))


@program
def two_optimizers():
    """A generator and a discriminator take turns. Healthy."""
    gen, dis = mlp(depth=3), nn.Sequential(nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 1)).to(DEV)
    opt_g, opt_d = torch.optim.Adam(gen.parameters()), torch.optim.Adam(dis.parameters())
    for step in range(12):
        noise, real = torch.randn(256, 1024, device=DEV), torch.randn(256, 1024, device=DEV)
        fake = gen(noise)
        loss = F.softplus(dis(fake.detach())).mean() + F.softplus(-dis(real)).mean()
        opt_d.zero_grad()
        loss.backward()
        opt_d.step()
        loss = F.softplus(-dis(fake)).mean()
        opt_g.zero_grad()
        loss.backward()
        opt_g.step()


@program
def bounded_cache():
    """Features of the last 10 requests are kept, older ones dropped. Healthy."""
    net, cache = mlp(depth=2), collections.OrderedDict()
    with torch.no_grad():
        for request in range(40):
            cache[request] = net(torch.randn(128 + 16 * (request * 7 % 11), 1024, device=DEV))
            if len(cache) > 10:
                cache.popitem(last=False)


@program
def averaged_weights():
    """Mixed precision with a scaler and a moving average of the weights. Healthy."""
    net = mlp(depth=3)
    shadow = copy.deepcopy(net)
    opt, scaler = torch.optim.AdamW(net.parameters()), torch.amp.GradScaler("cuda")
    for step in range(12):
        with torch.autocast("cuda", torch.float16):
            loss = net(torch.randn(256, 1024, device=DEV)).square().mean()
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        with torch.no_grad():
            for a, b in zip(shadow.parameters(), net.parameters()):
                a.lerp_(b, 0.01)


@program
def adapters():
    """A frozen network with small trained adapters and checkpointing. Healthy."""
    base = mlp(width=2048, depth=6).requires_grad_(False)
    down, up = nn.Linear(2048, 16, bias=False).to(DEV), nn.Linear(16, 2048, bias=False).to(DEV)
    opt = torch.optim.AdamW([*down.parameters(), *up.parameters()])
    for step in range(10):
        x = torch.randn(512, 2048, device=DEV)
        for i in range(0, len(base), 4):
            with set_checkpoint_early_stop(False):
                x = checkpoint(adapted, base[i:i + 4], down, up, x, use_reentrant=False)
        loss = x.square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def adapted(part, down, up, x):
    return part(x) + up(down(x))


@program
def truncated_recurrence():
    """A recurrent state that is detached. Healthy."""
    cell = nn.GRUCell(256, 512).to(DEV)
    opt = torch.optim.Adam(cell.parameters())
    state = torch.zeros(256, 512, device=DEV)
    for step in range(20):
        loss = 0
        for t in range(4):
            state = cell(torch.randn(256, 256, device=DEV), state)
            loss = loss + state.square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        state = state.detach()


@program
def growing_sequences():
    """A curriculum: sequences grow for 12 steps, then stay. The peak grows, nothing is kept. Healthy."""
    net = mlp(depth=4)
    opt = torch.optim.AdamW(net.parameters())
    for step in range(28):
        loss = net(torch.randn(128 * min(step + 1, 12), 1024, device=DEV)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


@program
def static_cache_decoding():
    """Tokens are decoded into a cache that was allocated once. Healthy."""
    net = mlp(depth=2)
    cache = torch.zeros(64, 256, 1024, device=DEV)
    with torch.no_grad():
        token = torch.randn(64, 1024, device=DEV)
        for position in range(40):
            token = net(token)
            cache[:, position] = token
            scores = torch.softmax((cache[:, : position + 1] @ token.unsqueeze(2)).squeeze(2), 1)
            token = (scores.unsqueeze(1) @ cache[:, : position + 1]).squeeze(1)


@program
def lbfgs():
    """L-BFGS keeps the last 6 updates: it grows for 6 steps, then no more. Healthy."""
    net = mlp(width=512, depth=2)
    opt = torch.optim.LBFGS(net.parameters(), history_size=6, max_iter=2)
    x = torch.randn(256, 512, device=DEV)

    def closure():
        opt.zero_grad()
        loss = (net(x) - x).square().mean()
        loss.backward()
        return loss

    for step in range(16):
        opt.step(closure)


@program
def epoch_predictions():
    """Predictions are collected for an epoch's metric and dropped at its end: a sawtooth. Healthy."""
    net = mlp(depth=2)
    opt = torch.optim.AdamW(net.parameters())
    for epoch in range(4):
        predictions = []
        for step in range(8):
            out = net(torch.randn(256, 1024, device=DEV))
            loss = out.square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            predictions.append(out.detach())
        print(float(torch.cat(predictions).mean()))
        del predictions


@program
def staged_model():
    """A pipeline in one process over two devices: both are meant. Healthy. Needs two devices."""
    first, second = mlp(depth=3).to("cuda:0"), mlp(depth=3).to("cuda:1")
    opt = torch.optim.AdamW([*first.parameters(), *second.parameters()])
    for step in range(5):
        loss = second(first(torch.randn(512, 1024, device="cuda:0")).to("cuda:1")).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


@program
def foreign_device():
    """A process that works on device 1 loads a small tensor to device 0. Needs two devices."""
    torch.cuda.set_device(1)
    stray = torch.zeros(1000, device="cuda:0")
    net = mlp(depth=3).to("cuda:1")
    opt = torch.optim.AdamW(net.parameters())
    for step in range(5):
        loss = net(torch.randn(1024, 1024, device="cuda:1")).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


@program
def gathered_on_rank0():
    """Two ranks; rank 0 collects the outputs of both on its device. Needs two devices and torchrun."""
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", rank))
    device = torch.device("cuda", rank)
    net = nn.parallel.DistributedDataParallel(mlp(depth=3).to(device), device_ids=[rank])
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    collected = []
    for step in range(6):
        out = net(torch.randn(16384, 1024, device=device))
        opt.zero_grad()
        out.square().mean().backward()
        opt.step()
        parts = [torch.empty_like(out) for _ in range(2)] if rank == 0 else None
        torch.distributed.gather(out.detach(), parts)
        if rank == 0:
            collected.append(torch.cat(parts))
    torch.distributed.destroy_process_group()


def main():
    if NAME == "--list":
        print(*PROGRAMS)
        return
    out = sys.argv[2]
    os.makedirs(out, exist_ok=True)
    torch.manual_seed(0)
    torch.cuda.init()
    every = NAME in ("autocast_cache", "benchmark_first_step", "ddp_buckets")
    torch.cuda.memory._record_memory_history(stacks="all" if every else "python", max_entries=sys.maxsize)

    def observer(device, segment, limit, free):
        FACTS.setdefault("ooms", []).append({"segment": segment, "limit": limit, "free": free})
        if NAME not in ("oom_handled", "backward_oom_kept"):
            dump(out)

    torch._C._cuda_attach_out_of_memory_observer(observer)
    try:
        PROGRAMS[NAME]()
    except torch.OutOfMemoryError as error:
        FACTS["oom_message"] = str(error)
        dumped = f"{out}/{NAME}.json"
        FACTS.update(json.load(open(dumped)) | FACTS)
        json.dump(FACTS, open(dumped, "w"), indent=1, sort_keys=True)
        return
    dump(out, f"{NAME}.rank{os.environ['RANK']}" if "RANK" in os.environ and NAME == "gathered_on_rank0" else None)


if __name__ == "__main__":
    main()
