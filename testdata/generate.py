#!/usr/bin/env python3
"""Writes a large memory snapshot that looks like one of PyTorch 2.11, with its right values beside it.

    python3 generate.py EVENTS OUT.pickle [--stacks python|all] [--seed N]

A small model of PyTorch's caching allocator (rounding, best fit, the split rule, merging, segments of 2 MiB,
20 MiB or a multiple of 2 MiB, a second stream with pending frees, an `empty_cache` now and then) serves a loop
that looks like training. So the final `segments` agree with the events, and an analyzer must be able to rebuild
every block. OUT.json says what it must find: the keys of `torch.cuda.memory_stats()`.

Time and memory: about 5 us and no memory per event; the events go through a temporary file, because a snapshot
starts with its segments. Opcodes are written as CPython's pickler would (protocol 4, frames of 64 KiB, memo,
batches of 1000), without the list of dicts that it would need. Needs nothing but Python 3.8 or newer.
"""

import argparse
import bisect
import json
import os
import random
import struct
import sys
import tempfile
from array import array

MIB = 1 << 20
ALLOC, FREE_REQUESTED, FREE_COMPLETED, SEGMENT_ALLOC, SEGMENT_FREE = range(5)
ACTIONS = ["alloc", "free_requested", "free_completed", "segment_alloc", "segment_free"]
SIDE_STREAM = 140_500_000_001_024
PENDING_FOR = 40  # a pending free completes at this many mallocs after it was requested


# ---------------------------------------------------------------------------------------------------------
# Stacks: some hundred of about twenty frames that share most of their frames, as module trees do.


def make_stacks(mixed, rng):
    """Returns (frames, stacks): frames as (name, file, line), stacks as lists of frame numbers, leaf first."""
    frames, numbers = [], {}

    def frame(name, file, line):
        key = (name, file, line)
        if key not in numbers:
            numbers[key] = len(frames)
            frames.append(key)
        return numbers[key]

    nn = "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/"
    call = [frame("_call_impl", nn + "module.py", 1790), frame("_wrapped_call_impl", nn + "module.py", 1779)]
    bottom = [frame("train", "/workspace/train.py", 212), frame("main", "/workspace/train.py", 301)]
    bottom.append(frame("<module>", "/workspace/train.py", 344))
    unwinder = [frame("torch::unwind::unwind()", "??", 0), frame("torch::CapturedTraceback::gather", "??", 0)]
    native = [frame("at::native::%s_cuda" % op, "??", 0) for op in ("empty", "linear", "softmax", "add", "mul")]
    python = [frame("_PyEval_EvalFrameDefault", "??", 0), frame("THPVariable_%s" % "linear", "??", 0)]
    leaves = [("linear.py", 134), ("normalization.py", 217), ("activation.py", 816), ("dropout.py", 73)]

    stacks = []
    for number in range(200):
        layer, leaf = number % 24, leaves[number % 4]
        stack = list(unwinder) + [rng.choice(native)] + list(python) if mixed else []
        stack.append(frame("forward", nn + leaf[0], leaf[1] + number // 100))
        stack += call
        stack.append(frame("forward", "/workspace/model.py", 40 + number))
        stack += call
        stack.append(frame("forward", "/workspace/model.py", 300 + layer))
        if mixed:
            stack += python
        stack += call
        stack.append(frame("forward", nn + "container.py", 253))
        stack += call
        stack.append(frame("forward", "/workspace/model.py", 420))
        stack += call
        stack.append(frame("loss", "/workspace/train.py", 180 + number % 5))
        stack += bottom
        stacks.append(stack)
    stacks[3] = []  # the backward pass: its allocations carry no Python frames
    return frames, stacks


# ---------------------------------------------------------------------------------------------------------
# The program: what one step asks for, as a tape of (operation, slot, bytes, stack).

TAKE, GIVE, GIVE_LATER, EMPTY = range(4)


def make_tape(rng, scale, layers, ops):
    """One training step at one batch size: forward keeps, backward gives back in reverse, then the optimizer."""
    tape, kept, slot = [], [], 10_000
    for layer in range(layers):
        for op in range(ops):
            stack = 4 + (layer * 7 + op) % 196
            size = int(rng.choice((512, 3_000, 20_000, 65_536, 300_000, 900_000, 1_500_000)) * scale)
            tape.append((TAKE, slot, size, stack))
            kept.append(slot)
            slot += 1
            if op % 3 == 0:  # a temporary that dies at once
                tape.append((TAKE, slot, size * 2, stack))
                tape.append((GIVE_LATER if op % 48 == 0 else GIVE, slot, 0, stack))
                slot += 1
    tape.append((TAKE, slot, int(11 * MIB * scale), 2))  # the loss's large temporary
    tape.append((TAKE, slot + 1, int(37 * MIB * scale), 2))
    tape.append((GIVE, slot, 0, 2))
    kept.append(slot + 1)
    slot += 2
    gradients = []
    for index, held in enumerate(reversed(kept)):
        if index % 4 == 0:
            tape.append((TAKE, slot, rng.choice((1_024, 40_000, 262_144, 1_048_576)), 3))
            gradients.append(slot)
            slot += 1
        tape.append((GIVE, held, 0, 3))
    for index, gradient in enumerate(gradients):
        tape.append((TAKE, slot, 8_192 + 512 * index, 1))
        tape.append((GIVE, gradient, 0, 1))
        tape.append((GIVE, slot, 0, 1))
        slot += 1
    return tape


def program(rng):
    """Yields operations for ever: parameters and optimizer state, then steps of varying batch size."""
    for slot in range(1_500):
        yield (TAKE, slot, rng.choice((256, 2_048, 147_456, 1_048_576, 2_359_296, 4_194_304)), 0)
    tapes = [make_tape(rng, scale, 24, 30) for scale in (1.0, 1.37, 0.61, 1.93)]
    step = 0
    while True:
        yield from tapes[rng.randrange(4)]
        step += 1
        if step % 200 == 0:
            yield (EMPTY, 0, 0, 2)


# ---------------------------------------------------------------------------------------------------------
# The allocator.


class Counter:
    """A counter with its maximum and what went in and out."""

    __slots__ = ("current", "peak", "allocated", "freed")

    def __init__(self):
        self.current = self.peak = self.allocated = self.freed = 0

    def add(self, amount):
        self.current += amount
        self.allocated += amount
        if self.current > self.peak:
            self.peak = self.current

    def take(self, amount):
        self.current -= amount
        self.freed += amount


class Block:
    """A block: a part of a segment, in a list with its neighbours."""

    __slots__ = ("address", "size", "before", "after", "free", "pending", "requested", "site", "event", "home")

    def __init__(self, address, size, home):
        self.address, self.size, self.home = address, size, home
        self.before = self.after = None
        self.free, self.pending, self.requested, self.site, self.event = True, False, 0, 0, -1


class Log:
    """Events in columns; full chunks go to a temporary file."""

    CHUNK = 100_000

    def __init__(self, file):
        self.file, self.count = file, 0
        self.clear()

    def clear(self):
        self.actions, self.sites, self.streams = array("B"), array("H"), array("B")
        self.addresses, self.sizes = array("Q"), array("Q")

    def add(self, action, address, size, side, site):
        self.actions.append(action)
        self.sites.append(site)
        self.streams.append(side)
        self.addresses.append(address)
        self.sizes.append(size)
        self.count += 1
        if len(self.actions) == self.CHUNK:
            self.flush()

    def columns(self):
        return (self.actions, self.sites, self.streams, self.addresses, self.sizes)

    def flush(self):
        self.file.write(struct.pack("<I", len(self.actions)))
        for column in self.columns():
            column.tofile(self.file)
        self.clear()

    def chunks(self):
        """Reads the chunks back as zipped rows."""
        self.file.seek(0)
        while head := self.file.read(4):
            (length,) = struct.unpack("<I", head)
            self.clear()
            for column in self.columns():
                column.fromfile(self.file, length)
            yield zip(*self.columns())


class Allocator:
    """PyTorch's rules, one device, default settings."""

    def __init__(self, log):
        self.log = log
        self.slots, self.pending, self.mallocs = {}, [], 0
        self.pools = {}  # (is small, on the side stream) -> sorted [(size, address)]
        self.free_blocks, self.segments = {}, {}
        self.next_address, self.returned = 0x7F10_0000_0000, {}
        names = ("allocation", "active", "segment", "allocated_bytes", "active_bytes", "requested_bytes")
        self.stats = {name: Counter() for name in (*names, "reserved_bytes")}

    def obtain(self, rounded, small, side, site):
        size = 2 * MIB if small else 20 * MIB if rounded < 10 * MIB else -(-rounded // (2 * MIB)) * (2 * MIB)
        known = self.returned.get(size)
        if known:
            address = known.pop()
        else:
            address, self.next_address = self.next_address, self.next_address + size + 2 * MIB
        block = Block(address, size, (address, small, side))
        self.segments[address] = (block, size, small, side)
        self.stats["segment"].add(1)
        self.stats["reserved_bytes"].add(size)
        self.log.add(SEGMENT_ALLOC, address, size, side, site)
        return block

    def malloc(self, slot, requested, side, site):
        stats = self.stats
        self.mallocs += 1
        while self.pending and self.pending[0][0] <= self.mallocs:
            self.complete(self.pending.pop(0)[1], site)
        rounded = max(512, (requested + 511) & ~511)
        small = rounded <= MIB
        pool = self.pools.setdefault((small, side), [])
        at = bisect.bisect_left(pool, (rounded, 0))
        if at < len(pool):
            block = self.free_blocks.pop(pool.pop(at)[1])
        else:
            block = self.obtain(rounded, small, side, site)
        rest = block.size - rounded
        if rest >= 512 if small else rest > MIB:
            left = Block(block.address + rounded, rest, block.home)
            left.before, left.after = block, block.after
            if left.after:
                left.after.before = left
            block.after, block.size = left, rounded
            self.set_free(left)
        block.free, block.requested, block.site, block.event = False, requested, site, self.log.count
        self.slots[slot] = block
        stats["allocation"].add(1)
        stats["active"].add(1)
        stats["allocated_bytes"].add(block.size)
        stats["active_bytes"].add(block.size)
        stats["requested_bytes"].add(requested)
        self.log.add(ALLOC, block.address, requested, side, site)

    def set_free(self, block):
        self.free_blocks[block.address] = block
        bisect.insort(self.pools.setdefault(block.home[1:], []), (block.size, block.address))

    def unset_free(self, block):
        del self.free_blocks[block.address]
        pool = self.pools[block.home[1:]]
        del pool[bisect.bisect_left(pool, (block.size, block.address))]

    def free(self, slot, later, site):
        block = self.slots.pop(slot)
        self.stats["allocation"].take(1)
        self.stats["allocated_bytes"].take(block.size)
        self.log.add(FREE_REQUESTED, block.address, block.requested, block.home[2], site)
        if later:
            block.pending = True
            self.pending.append((self.mallocs + PENDING_FOR, block))
        else:
            self.complete(block, site)

    def complete(self, block, site):
        stats = self.stats
        stats["active"].take(1)
        stats["active_bytes"].take(block.size)
        stats["requested_bytes"].take(block.requested)
        self.log.add(FREE_COMPLETED, block.address, block.requested, block.home[2], site)
        block.free, block.pending = True, False
        before, after = block.before, block.after
        if before and before.free:
            self.unset_free(before)
            before.size += block.size
            before.after = after
            if after:
                after.before = before
            block = before
        if after and after.free:
            self.unset_free(after)
            block.size += after.size
            block.after = after.after
            if block.after:
                block.after.before = block
        self.set_free(block)

    def empty_cache(self, site):
        while self.pending:
            self.complete(self.pending.pop(0)[1], site)
        for small in (False, True):
            whole = [s for s in self.segments.values() if s[2] == small and s[0].free and not s[0].after]
            for block, size, _, side in sorted(whole, key=lambda s: (s[3], s[1], s[0].address)):
                self.unset_free(block)
                del self.segments[block.address]
                self.returned.setdefault(size, []).append(block.address)
                self.stats["segment"].take(1)
                self.stats["reserved_bytes"].take(size)
                self.log.add(SEGMENT_FREE, block.address, size, side, site)


def simulate(events, log, seed):
    """Runs the program until about `events` events are logged."""
    allocator = Allocator(log)
    for kind, slot, size, site in program(random.Random(seed)):
        if kind == TAKE:
            allocator.malloc(slot, size, 1 if site == 50 else 0, site)
        elif kind == EMPTY:
            allocator.empty_cache(site)
        else:
            allocator.free(slot, kind == GIVE_LATER, site)
        if log.count >= events:
            break
    log.flush()
    return allocator


# ---------------------------------------------------------------------------------------------------------
# The pickle, opcode by opcode.


def integer(value):
    """An int as CPython writes it."""
    if 0 <= value < 256:
        return b"K" + bytes((value,))
    if 0 <= value < 65536:
        return b"M" + struct.pack("<H", value)
    if -(1 << 31) <= value < (1 << 31):
        return b"J" + struct.pack("<i", value)
    length = value.bit_length() // 8 + 1
    return b"\x8a" + bytes((length,)) + value.to_bytes(length, "little", signed=True)


STREAMS = (integer(0), integer(SIDE_STREAM))


class Pickler:
    """Appends opcodes; keeps count of the memo; cuts frames where no opcode is split."""

    FRAME = 64 * 1024

    def __init__(self, file):
        self.file, self.parts, self.size, self.memo, self.known = file, [], 0, 0, {}
        file.write(b"\x80\x04")

    def put(self, data):
        self.parts.append(data)
        self.size += len(data)
        if self.size >= self.FRAME:
            self.cut()

    def cut(self):
        data = b"".join(self.parts)
        self.file.write(b"\x95" + struct.pack("<Q", len(data)) + data)
        self.parts, self.size = [], 0

    def memoize(self):
        self.memo += 1
        return b"\x94"

    @staticmethod
    def get(index):
        return b"h" + bytes((index,)) if index < 256 else b"j" + struct.pack("<I", index)

    def text(self, value, shared=True):
        """A str; a shared one is the same object each time, as the keys of PyTorch's dicts are."""
        if shared and value in self.known:
            return self.get(self.known[value])
        data = value.encode()
        head = b"\x8c" + bytes((len(data),)) if len(data) < 256 else b"X" + struct.pack("<I", len(data))
        if shared:
            self.known[value] = self.memo
        return head + data + self.memoize()

    def open_dict(self):
        return b"}" + self.memoize() + b"("


class SnapshotWriter:
    """The shape of `torch.cuda.memory._snapshot()` of 2.11."""

    def __init__(self, pickler, frames, stacks):
        self.p, self.frames, self.stacks = pickler, frames, stacks
        self.frame_memo, self.list_of_event, self.empty_list = {}, {}, None
        self.shared_free, self.shared_list = None, 0

    def frame(self, number):
        p = self.p
        if number in self.frame_memo:
            return p.get(self.frame_memo[number])
        name, file, line = self.frames[number]
        self.frame_memo[number] = p.memo
        out = p.open_dict() + p.text("name") + p.text(name, shared=False)
        out += p.text("filename") + p.text(file, shared=False)
        return out + p.text("line") + integer(line) + b"u"

    def stack(self, site):
        """A new list of shared frames: one per captured context."""
        out = b"]" + self.p.memoize()
        frames = self.stacks[site]
        if not frames:
            return out
        return out + b"(" + b"".join([self.frame(number) for number in frames]) + b"e"

    def no_stack(self):
        if self.empty_list is None:
            self.empty_list = self.p.memo
            return b"]" + self.p.memoize()
        return self.p.get(self.empty_list)

    def items(self, writers):
        """A list, in batches of 1000 as CPython writes them."""
        p, open_batch = self.p, 0
        p.put(b"]" + p.memoize())
        for write in writers:
            if open_batch == 0:
                p.put(b"(")
            write()
            open_batch += 1
            if open_batch == 1000:
                p.put(b"e")
                open_batch = 0
        if open_batch:
            p.put(b"e")

    def block(self, block):
        p = self.p
        state = "inactive" if block.free else "active_pending_free" if block.pending else "active_allocated"
        out = p.open_dict() + p.text("address") + integer(block.address)
        out += p.text("size") + integer(block.size) + p.text("requested_size") + integer(block.requested)
        out += p.text("state") + p.text(state) + p.text("frames")
        if block.free:
            out += self.no_stack()
        else:
            self.list_of_event[block.event] = p.memo
            out += self.stack(block.site)
        p.put(out + b"u")

    def segment(self, segment):
        p, (first, size, small, side) = self.p, segment
        blocks, block = [], first
        while block:
            blocks.append(block)
            block = block.after
        active = [b for b in blocks if not b.free]
        out = p.open_dict() + p.text("device") + integer(0) + p.text("address") + integer(first.address)
        out += p.text("total_size") + integer(size)
        out += p.text("allocated_size") + integer(sum(b.size for b in active if not b.pending))
        out += p.text("active_size") + integer(sum(b.size for b in active))
        out += p.text("requested_size") + integer(sum(b.requested for b in active))
        out += p.text("stream") + integer(SIDE_STREAM if side else 0)
        out += p.text("segment_type") + p.text("small" if small else "large")
        out += p.text("segment_pool_id") + integer(0) + integer(0) + b"\x86" + p.memoize()
        out += p.text("is_expandable") + b"\x89" + p.text("frames") + self.no_stack() + p.text("blocks")
        p.put(out)
        self.items([lambda b=b: self.block(b) for b in blocks])
        p.put(b"u")

    def event(self, action, address, size, side, time_us):
        """An event up to its `frames`, the slow way: writes every text that is new."""
        p = self.p
        out = p.text("action") + p.text(ACTIONS[action]) + p.text("addr") + integer(address)
        out += p.text("size") + integer(size) + p.text("stream") + STREAMS[side]
        out += p.text("time_us") + integer(time_us) + p.text("compile_context")
        out += p.text("N/A", shared=False) + p.text("user_metadata") + p.text("")
        return out + p.text("frames")

    def template(self, action):
        """The parts of an event between address, size and time, once all its texts are in the memo."""
        p = self.p
        head = p.text("action") + p.text(ACTIONS[action]) + p.text("addr") + b"\x8a\x06"
        middle = [p.text("stream") + stream + p.text("time_us") + b"\x8a\x07" for stream in STREAMS]
        tail = p.text("compile_context") + b"\x8c\x03N/A\x94" + p.text("user_metadata") + p.text("")
        return head, middle, tail + p.text("frames")

    def trace(self, log, time_us):
        """The event list of device 0, in batches of 1000."""
        p, put, index = self.p, self.p.put, 0
        rng = random.Random(1)
        pauses = [rng.randrange(1, 60) for _ in range(4096)]
        sizes, bodies, templates = {}, {}, {}
        put(b"]" + p.memoize())
        for rows in log.chunks():
            for action, site, side, address, size in rows:
                if index % 1000 == 0:
                    put(b"e(" if index else b"(")
                time_us += pauses[index & 4095]
                start = p.open_dict()
                if action in templates:
                    head, middle, tail = templates[action]
                    p.memo += 1  # the text "N/A"
                    packed = sizes.get(size)
                    if packed is None:
                        packed = sizes[size] = p.text("size") + integer(size)
                    where = address.to_bytes(6, "little")
                    when = time_us.to_bytes(7, "little")
                    out = b"".join((start, head, where, packed, middle[side], when, tail))
                else:
                    out = start + self.event(action, address, size, side, time_us)
                    templates[action] = self.template(action)
                put(out + self.event_stack(action, site, index, bodies) + b"u")
                index += 1
        if index:
            put(b"e")

    def event_stack(self, action, site, index, bodies):
        """The list of an event: new for each call, shared by the two halves of an immediate free, and by an
        allocation that is live at the end with its block."""
        p = self.p
        if action == ALLOC and index in self.list_of_event:
            self.shared_free = None
            return p.get(self.list_of_event[index])
        if action == FREE_COMPLETED and self.shared_free == site:
            self.shared_free = None
            return p.get(self.shared_list)
        self.shared_free = site if action == FREE_REQUESTED else None
        self.shared_list = p.memo
        body = bodies.get(site)
        if body is None:
            out = self.stack(site)
            # From now on all its frames are in the memo: the body is the same every time.
            if self.stacks[site]:
                refs = b"".join([p.get(self.frame_memo[n]) for n in self.stacks[site]])
                bodies[site] = b"]\x94(" + refs + b"e"
            else:
                bodies[site] = b"]\x94"
            return out
        p.memo += 1
        return body

    def write(self, allocator, log):
        p = self.p
        p.put(p.open_dict() + p.text("segments"))
        ordered = [allocator.segments[a] for a in sorted(allocator.segments)]
        self.items([lambda s=s: self.segment(s) for s in ordered])
        p.put(p.text("device_traces") + b"]" + p.memoize())
        self.trace(log, 1_795_962_434_000_000)
        p.put(b"a" + p.text("allocator_settings") + self.settings())
        p.put(p.text("external_annotations") + b"]" + p.memoize() + b"u.")
        p.cut()

    def settings(self):
        p = self.p
        out = p.open_dict() + p.text("PYTORCH_CUDA_ALLOC_CONF") + p.text("")
        out += p.text("max_split_size") + integer(-1)
        out += p.text("garbage_collection_threshold") + b"G" + struct.pack(">d", 0.0)
        out += p.text("expandable_segments") + b"\x89" + p.text("roundup_power2_divisions") + p.open_dict()
        for slot in range(16):
            out += p.text(str(1 << slot), shared=False) + integer(0)
        return out + b"uu"


def right_values(allocator, log):
    """What an analyzer must find, in the keys of `torch.cuda.memory_stats()`."""
    stats = {}
    for name, counter in sorted(allocator.stats.items()):
        for part in ("allocated", "current", "freed", "peak"):
            stats["%s.all.%s" % (name, part)] = getattr(counter, part)
    return {"events": log.count, "segments": len(allocator.segments), "stats": stats}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("events", type=int)
    parser.add_argument("out")
    parser.add_argument("--stacks", choices=("python", "all"), default="python")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    frames, stacks = make_stacks(options.stacks == "all", random.Random(options.seed))
    with tempfile.TemporaryFile(dir=os.path.dirname(os.path.abspath(options.out))) as spool:
        log = Log(spool)
        allocator = simulate(options.events, log, options.seed)
        with open(options.out, "wb") as file:
            SnapshotWriter(Pickler(file), frames, stacks).write(allocator, log)
    values = right_values(allocator, log)
    with open(os.path.splitext(options.out)[0] + ".json", "w") as file:
        json.dump(values, file, indent=1)
        file.write("\n")
    print(json.dumps(values["stats"]), file=sys.stderr)


if __name__ == "__main__":
    main()
