"""Census and holders, on a stand-in for torch: names, kinds, chains, cycles, and objects that mean harm."""

import gc

import pytest
from faketorch import Module, MulBackward0, Optimizer, Tensor, install
from memlab import live, names, naming, warn
from memlab.options import Options


@pytest.fixture(autouse=True)
def torch(monkeypatch):
    gc.collect()
    monkeypatch.setattr(names.NAMES, "_known", {})
    monkeypatch.setattr(names.NAMES, "_prefixes", {})
    monkeypatch.setattr(names.NAMES, "_has_plain_root", False)
    return install(monkeypatch)


def search():
    found = naming.census_and_holders(Options())
    assert warn.said() == []
    return found


def holder_of(found, tensor):
    where = live.storage_of(tensor)[:2]
    return [row[2] for row in found.holders if row[:2] == where]


def row_of(found, tensor):
    return next(row for row in found.tensors if row[:2] == live.storage_of(tensor)[:2])


def test_parameters_gradients_and_state_have_qualified_names():
    weight = Tensor(400)
    weight.grad = Tensor(400)
    model = Module(block=Module(up=Module(weight=weight)))
    optimizer = Optimizer([weight], 400)
    found = search()
    assert row_of(found, weight)[2:5] == (400, "parameter", "block.up.weight")
    assert row_of(found, weight.grad)[3:5] == ("gradient", "block.up.weight.grad")
    state = optimizer.state[weight]["exp_avg"]
    assert row_of(found, state)[3:5] == ("optimizer_state", "block.up.weight.exp_avg")
    assert names.NAMES.of(model) == "Module" and len(found.tensors) == 3


def test_a_storage_is_listed_once():
    first = Tensor(800)
    second = Tensor(800, storage=first.untyped_storage())
    assert sum(row[:2] == live.storage_of(second)[:2] for row in search().tensors) == 1


class Cache:
    def __init__(self):
        self.data = {}


CACHE = Cache()


def test_a_modules_cache_holds_all_its_tensors():
    CACHE.data = {number: Tensor(1000 + number) for number in range(40)}
    found = search()
    for number, tensor in CACHE.data.items():
        assert holder_of(found, tensor) == [f"module test_naming: CACHE.data[{number}]"]
    CACHE.data = {}


def test_a_local_list_is_named_with_its_function():
    history = [Tensor(4096) for _ in range(3)]
    assert holder_of(search(), history[2]) == ["local history[2] in test_a_local_list_is_named_with_its_function()"]


def test_what_only_a_graph_keeps_is_held_by_the_graph_of_who_holds_it():
    kept = Tensor(1 << 20)
    where = live.storage_of(kept)[:2]
    loss = Tensor(4, MulBackward0(None, [MulBackward0(kept)]))
    loss.grad_fn.next_functions[0][0]._raw_saved_self.__dict__["data"] = kept
    del kept
    history = [loss]
    del loss
    found = search()
    paths = [row[2] for row in found.holders if row[:2] == where]
    name = "test_what_only_a_graph_keeps_is_held_by_the_graph_of_who_holds_it"
    assert any(f"local history[0] in {name}()" in path for path in paths + holder_of(found, history[0]))


class Node:
    def __init__(self, data):
        self.data, self.sibling = data, None


def test_a_cycle_is_named_by_the_attribute_that_closes_it():
    gc.disable()
    try:
        for _ in range(3):
            first, second = Node(Tensor(4000)), Node(Tensor(4000))
            first.sibling, second.sibling = second, first
            del first, second
        paths = {row[2] for row in search().holders}
    finally:
        gc.enable()
        gc.collect()
    assert paths == {"reference cycle through Node.sibling, holds Node.data"}


def test_a_traceback_that_is_kept_holds_the_locals_of_its_frames():
    def fail():
        big = Tensor(5000)
        raise RuntimeError("mine", id(big))

    try:
        fail()
    except RuntimeError as error:
        kept = error
    paths = [row[2] for row in search().holders]
    assert paths == ["traceback of a RuntimeError: local big in fail()"], kept


def test_closures_and_suspended_generators_are_holders():
    def outer():
        inside = Tensor(3000)
        return lambda: inside

    def generate():
        waiting = Tensor(6000)
        yield
        print(waiting)

    function, generator = outer(), generate()
    next(generator)
    paths = sorted(row[2] for row in search().holders)
    assert paths[0].startswith("local function's variable inside in test_closures")
    assert paths[1] == "suspended test_closures_and_suspended_generators_are_holders.<locals>.generate(): local waiting"


def test_looking_at_locals_does_not_keep_them_alive():
    import weakref

    tensor = Tensor(100)
    alive = weakref.ref(tensor)
    search()
    del tensor
    assert alive() is None


class Hostile:
    __slots__ = ("held", "__weakref__")
    __hash__ = None

    def __getattribute__(self, name):
        raise ValueError(name)

    def __eq__(self, other):
        raise ValueError("eq")

    def __repr__(self):
        raise ValueError("repr")

    __class__ = property(lambda self: 1 // 0)


class HostileDict(dict):
    def __getitem__(self, key):
        raise ValueError("getitem")

    items = values = __iter__ = __len__ = __getitem__


def test_objects_that_mean_harm_are_left_alone():
    slotted, mapping = Hostile(), HostileDict()
    object.__setattr__(slotted, "held", Tensor(8000))
    dict.__setitem__(mapping, "key", Tensor(9000))
    half = Module.__new__(Module)  # a module whose __init__ never ran
    found = search()
    name = "test_objects_that_mean_harm_are_left_alone"
    assert sorted(row[2] for row in found.holders) == [
        f"local mapping['key'] in {name}()",
        f"local slotted.held in {name}()",
    ], half


def test_a_search_that_is_cut_off_says_so(monkeypatch):
    monkeypatch.setattr(naming, "HOLDER_SECONDS", 0.0)
    kept = [Tensor(4096)]
    found = search()
    assert holder_of(found, kept[0]) == ["(search cut off after 0 s)"]
    assert found.faults == ["search for holders cut off after 0 s"]
