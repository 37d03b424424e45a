"""Writes the files beside it: one small snapshot in every pickle protocol, and once without a memo."""

import io
import pathlib
import pickle

HERE = pathlib.Path(__file__).parent
BASE, TIME = 2**40, 1_700_000_000_000_000


def event(action, size, time, **keys):
    address = keys.pop("address", BASE)
    where = {"device_free": address} if action == "oom" else {"addr": address}
    plain = {"stream": 0, "time_us": TIME + time, "compile_context": "N/A", "user_metadata": ""}
    return {"action": action, **where, "size": size, **plain, **keys}


def snapshot():
    frames = [
        {"name": "step", "filename": "train.py", "line": 12},
        {"name": 'caf\u00e9 "x"\n', "filename": "/a/b\u20ac.py", "line": 2**64 - 1},
    ]
    freed = frames[1:]
    far = {"address": 2**63 + 512, "stream": 94_000_000_000_000, "compile_context": "graph 3"}
    events = [
        event("segment_alloc", 2 << 20, 0, frames=frames[:1]),
        event("alloc", 4000, 10, user_metadata="step 1", frames=frames),
        event("alloc", 70_000, 20, user_metadata="step 1", pool_id=(0, 3), frames=[], **far),
        event("oom", 10**9, 30, address=12_345),
        event("free_requested", 4000, 40, frames=freed),
        event("free_completed", 4000, 40, frames=freed),
    ]
    block = {"address": BASE, "size": 2 << 20, "requested_size": 4000, "state": "inactive", "frames": []}
    segment = {"device": 0, "address": BASE, "total_size": 2 << 20, "allocated_size": 0, "active_size": 0}
    segment |= {"requested_size": 0, "stream": 0, "segment_type": "small", "segment_pool_id": (0, 0)}
    segment |= {"is_expandable": False, "frames": frames[:1], "blocks": [block]}
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.5}
    settings |= {"expandable_segments": False, "roundup_power2_divisions": {"1": 0, "2": 4}}
    return {
        "segments": [segment],
        "device_traces": [events, []],
        "allocator_settings": settings,
        "external_annotations": [{"stage": "START", "name": "step", "device": 0, "time_us": TIME}],
        "device_total": 2**36,
    }


for protocol in range(6):
    (HERE / f"protocol{protocol}.pickle").write_bytes(pickle.dumps(snapshot(), protocol))
out = io.BytesIO()
pickler = pickle._Pickler(out, 2)
pickler.fast = True
pickler.dump(snapshot())
(HERE / "unshared.pickle").write_bytes(out.getvalue())
