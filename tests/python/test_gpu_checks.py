"""The checks for machines with a GPU (`inject/gpu`) find what is wrong: small traces by hand, right ones and spoiled ones."""

import json
import sys

import pytest
from conftest import ROOT
from memlab import chunks, columns

sys.path.insert(0, str(ROOT / "inject" / "gpu"))

import layers  # noqa: E402
import overhead  # noqa: E402
import pools  # noqa: E402

RECORDED = ROOT / "testdata" / "driver" / "recorded"
ALLOC, FREE, CREATE, RELEASE, MAP, UNMAP = 1, 2, 10, 11, 12, 13
MIB = 1 << 20
MODULES = ["/lib/libcuda.so.1", "/lib/libcudart.so.13", "/torch/libc10_cuda.so", "/nvidia/libcublas.so.13", "/cupy/runtime.so", "/jax/xla_cuda_plugin.so"]
#: Stacks, by the module for which memory is taken.
C10, CUBLAS, CUPY, XLA = 1, 2, 3, 4


def row(call, order, address=0, bytes=0, handle=0, native=C10, **more):
    return dict(call=call, order=order, time=1000 + order, result=0, address=address, bytes=bytes, handle=handle, native=native) | more


def write_driver(path, rows, pid=7, closed=True):
    file = chunks.ChunkFile.create(path, "test")
    file.write_chunk(chunks.PROCESS, {}, {"pid": pid, "other": {"driver": {"hook": "cupti"}}})
    stacks = [[0, 1, at] for at in (2, 3, 4, 5)]
    flat = [frame for stack in stacks for frame in stack]
    facts = {"modules": [1, 6], "frames": [0, 6], "stacks": [1, 4], "stack_frames": len(flat)}
    native = {"module_path": MODULES, "module_build_id": [""] * 6, "frame_module": list(range(1, 7)), "frame_offset": [16] * 6}
    native |= {"stack_length": [3] * 4, "stack_frame": flat}
    file.write_chunk(16, facts, {key: value if key.startswith("module") else columns.offset(value, True) for key, value in native.items()})
    keys = sorted({key for one in rows for key in one})
    file.write_chunk(14, {"first": 0, "count": len(rows)}, {key: columns.offset([one.get(key, 0) for one in rows]) for key in keys})
    if closed:
        file.write_chunk(chunks.TRAILER, {"clean": True, "chunks": file.chunks, "devices": [], "driver": len(rows)})
    file.abandon()
    return str(path)


def write_emitted(path, events, segments, pid=7):
    """Events (action, time, address, size); segments as in the truth."""
    file = chunks.ChunkFile.create(path, "test")
    file.write_chunk(chunks.PROCESS, {}, {"pid": pid})
    values = dict(zip(("action", "time", "address", "size"), map(list, zip(*events))))
    file.write_chunk(chunks.EVENTS, {"device": 0, "first": 0, "count": len(events)}, {key: columns.offset(value, True) for key, value in values.items()})
    values = dict(zip(("address", "bytes", "stream", "expandable"), map(list, zip(*segments))))
    facts = {"device": 0, "events": len(events), "first": 0, "count": len(segments), "blocks": 0}
    file.write_chunk(chunks.SEGMENTS, facts, {key: columns.offset(value) for key, value in values.items()})
    file.close(True, {0: len(events)})
    return str(path)


#: A segment that stays, one that goes, an expandable one of two mappings that loses a third; a library's workspace.
ROWS = [
    row(ALLOC, 1, 0x100000, 2 * MIB),
    row(ALLOC, 2, 0x900000, MIB, native=CUBLAS),
    row(ALLOC, 3, 0x4000000, 20 * MIB),
    row(FREE, 4, 0x4000000),
    *[row(CREATE, 5 + i, bytes=2 * MIB, handle=50 + i) for i in range(3)],
    *[row(MAP, 8 + i, 0x8000000 + 2 * MIB * i, 2 * MIB, 50 + i) for i in range(3)],
    row(UNMAP, 11, 0x8400000, 2 * MIB),
    row(RELEASE, 12, handle=52),
]
SEGMENTS = [[0x100000, 2 * MIB, 0, 0], [0x8000000, 4 * MIB, 5, 1]]
#: The emitter's actions: 3 taken, 4 given back, 5 mapped, 6 unmapped.
EVENTS = [(3, 1001, 0x100000, 2 * MIB), (0, 1001, 0x100000, 512), (3, 1003, 0x4000000, 20 * MIB), (4, 1004, 0x4000000, 20 * MIB)]
EVENTS += [(5, 1010, 0x8000000, 6 * MIB), (6, 1011, 0x8400000, 2 * MIB)]


def truth(**more):
    end = {"time_us": 1012, "segments": SEGMENTS, "reserved": 6 * MIB, "free": 80 * MIB, "total": 100 * MIB, "nvidia_smi": None}
    early = {"time_us": 1003, "segments": [SEGMENTS[0], [0x4000000, 20 * MIB, 0, 0]], "reserved": 22 * MIB, "free": 70 * MIB, "total": 100 * MIB}
    return {"pid": 7, "moments": {"start": early, "end": end | more}}


def judge(folder, rows=ROWS, events=EVENTS, segments=SEGMENTS, told=None, pid=7):
    facts = folder / "truth.json"
    facts.write_text(json.dumps(told or truth()))
    return layers.main([write_emitted(folder / "t.msgpack", events, segments, pid), write_driver(folder / "t.driver.msgpack", rows), str(facts)])


def test_two_layers_that_agree(tmp_path, capsys):
    assert judge(tmp_path) == 0, capsys.readouterr().out
    said = capsys.readouterr().out
    assert "end: device_used 20,971,520 - takings 7,340,032 = context and others 13,631,488" in said
    assert "1,048,576 bytes in    1 takings  libcublas.so.13" in said
    assert "1 events segment_map = 3 calls map, in order" in said


def changed(rows, order, **more):
    return [one | more if one["order"] == order else one for one in rows]


@pytest.mark.parametrize(
    ("spoiled", "word"),
    [
        ({"rows": ROWS[1:]}, "the driver has nothing there"),
        ({"rows": changed(ROWS, 1, bytes=MIB)}, "the driver has 1,048,576 bytes there"),
        ({"rows": changed(ROWS, 2, native=C10)}, "no segment: 1,048,576 bytes at 0x900000"),
        ({"rows": changed(ROWS, 9, address=0x8300000)}, "nothing is mapped at 0x8200000"),
        ({"rows": changed(ROWS, 4, address=0x5000000)}, "0x5000000 is not live"),
        ({"rows": changed(ROWS, 2, address=0x180000)}, "live addresses do not overlap"),
        ({"rows": changed(ROWS, 11, result=1)}, "a mapping of 2,097,152 bytes at 0x8400000"),
        ({"rows": [one for one in ROWS if one["order"] != 12] + [row(CREATE, 13, bytes=MIB, handle=60)]}, "not mapped: 1,048,576 bytes"),
        ({"segments": SEGMENTS[:1]}, "no segment: a mapping of 2,097,152 bytes at 0x8000000"),
        ({"events": EVENTS[:2] + EVENTS[4:]}, "no event: 0x4000000, 20,971,520 bytes, call 3"),
        ({"events": EVENTS[:1] + EVENTS[:1] + EVENTS[2:]}, "segment_alloc 0x100000, 2,097,152 bytes: the next call is 0x4000000"),
        ({"told": truth(reserved=5 * MIB)}, "reserved 5,242,880"),
        ({"told": truth(free=99 * MIB)}, "= context and others -6,291,456"),
        ({"pid": 8}, "one process: [7, 8]"),
    ],
)
def test_two_layers_that_do_not(spoiled, word, tmp_path, capsys):
    assert judge(tmp_path, **spoiled) == 1
    assert word in capsys.readouterr().out


@pytest.mark.parametrize(("name", "own"), [("torch", "383,778,816"), ("expandable", "404,750,336")])
def test_a_recording_without_a_truth(name, own, capsys):
    assert layers.main([str(RECORDED / f"{name}.msgpack")]) == 0
    said = capsys.readouterr().out
    assert f"{own} bytes in" in said and "DIFF" not in said


def test_a_file_that_was_not_closed_is_said(tmp_path, capsys):
    assert layers.main([write_driver(tmp_path / "t.msgpack", ROWS, closed=False)]) == 1
    assert "closed False" in capsys.readouterr().out


def pooled(folder, rows, facts):
    path = folder / "truth.json"
    path.write_text(json.dumps({"version": "0", "pid": 7, "time_us": 2000, "kept_bytes": MIB} | facts))
    return pools.main(write_driver(folder / "t.msgpack", rows), str(path))


@pytest.mark.parametrize(("pool", "status"), [(3 * MIB, 0), (4 * MIB, 1), (2 * MIB, 1)])
def test_cupys_pool_is_what_it_took(pool, status, tmp_path):
    rows = [row(ALLOC, 1, 0x100000, 2 * MIB, native=CUPY), row(ALLOC, 2, 0x500000, MIB, native=CUPY), row(ALLOC, 3, 0x700000, MIB, native=CUBLAS)]
    facts = {"library": "cupy", "pool_bytes": pool, "used_bytes": MIB, "free": 0, "total": 10 * MIB}
    assert pooled(tmp_path, rows, facts) == status


@pytest.mark.parametrize(
    ("sizes", "preallocate", "pool", "status"),
    [
        ((100, 1), True, 100, 0),
        ((90, 1), True, 100, 1),
        ((50, 50), True, 100, 1),
        ((100, 99), True, 100, 1),
        ((2, 4, 8), False, 14, 0),
        ((2, 4), False, 14, 1),
        ((2, 4, 90), False, 14, 1),
    ],
)
def test_xlas_pool_is_what_it_took(sizes, preallocate, pool, status, tmp_path):
    rows = [row(ALLOC, 1 + i, 0x100000000 * (i + 1), size * MIB, native=XLA) for i, size in enumerate(sizes)]
    stats = {"pool_bytes": pool * MIB, "bytes_limit": 100 * MIB, "bytes_in_use": 2 * MIB}
    assert pooled(tmp_path, rows, {"library": "jax", "preallocate": preallocate, "stats": stats}) == status


def test_a_recording_that_lacks_calls_is_no_measurement(tmp_path, monkeypatch):
    write_driver(tmp_path / "pairs.msgpack", ROWS)
    for count, holds in ((6, True), (7, False)):
        monkeypatch.setattr(overhead, "run", lambda words, limit: [("malloc_free", 1.5, count, 2)])
        if holds:
            rows, (calls, _, own) = overhead.one("memlab", ["pairs"], "pairs", "all", str(tmp_path), 1)
            assert calls == 12 and rows[0][1] == 1.5 and own == (0, 0), "the file says no time of the recorder's own"
        else:
            with pytest.raises(RuntimeError, match="14 calls"):
                overhead.one("memlab", ["pairs"], "pairs", "all", str(tmp_path), 1)
