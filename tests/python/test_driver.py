"""`memlab run --driver`: the environment that it sets, and a run with stand-ins for CUDA and CUPTI."""

import os
import shutil
import subprocess
import sys
import zlib

import msgpack
import pytest
from conftest import ROOT
from memlab import driver

SOURCES = ROOT / "inject" / "tests" / "c"
JOB = """
import ctypes
cuda = ctypes.PyDLL("libcuda.so.1")
cuda.cuInit(0)
out = ctypes.c_uint64()
assert cuda.cuMemAlloc_v2(ctypes.byref(out), ctypes.c_size_t(4096)) == 0
"""


@pytest.fixture
def library(monkeypatch, tmp_path):
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "libmemlab_inject.so").touch()
    monkeypatch.setenv("MEMLAB_INJECT", str(folder))
    for name in ("CUDA_INJECTION64_PATH", "MEMLAB_DRIVER_OUTPUT", "MEMLAB_DRIVER_HOOK", "MEMLAB_DRIVER_SINCE"):
        monkeypatch.setenv(name, "")  # so that it is put back
    return folder / "libmemlab_inject.so"


def test_the_other_file_is_named_after_the_emitters():
    assert driver.beside("a/b.msgpack") == "a/b.driver.msgpack"
    assert driver.beside("b") == "b.driver"


def test_the_library_finds_where_to_write(library, tmp_path):
    old = tmp_path / "t.driver.msgpack"
    old.write_bytes(b"\x97\xa6memlab\0 and what follows")
    driver.prepare(tmp_path / "t.msgpack")
    assert os.environ["CUDA_INJECTION64_PATH"] == str(library)
    assert os.environ["MEMLAB_DRIVER_OUTPUT"] == str(old)
    assert not old.exists()


def test_a_file_that_is_no_trace_stays(library, tmp_path, capsys):
    other = tmp_path / "t.driver.msgpack"
    other.write_text("a thesis")
    with pytest.raises(SystemExit) as stopped:
        driver.prepare(tmp_path / "t.msgpack")
    assert stopped.value.code == 2
    assert "is no trace" in capsys.readouterr().err
    assert other.read_text() == "a thesis"


def test_a_library_that_is_missing_is_said(library, tmp_path, capsys):
    library.unlink()
    with pytest.raises(SystemExit) as stopped:
        driver.prepare(tmp_path / "t.msgpack")
    assert stopped.value.code == 2
    assert "MEMLAB_INJECT" in capsys.readouterr().err


def test_another_tool_is_left_in_its_place(library, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/opt/other/libtool.so")
    with pytest.raises(SystemExit) as stopped:
        driver.prepare(tmp_path / "t.msgpack")
    assert stopped.value.code == 2
    assert "/opt/other/libtool.so" in capsys.readouterr().err
    assert os.environ["CUDA_INJECTION64_PATH"] == "/opt/other/libtool.so"


def chunks(path):
    """Kind, facts and unpacked payload of every chunk."""
    found = []
    with open(path, "rb") as file:
        for _, kind, codec, _, facts, stored, _ in msgpack.Unpacker(file):
            raw = zlib.decompress(stored) if codec == 2 else stored
            found.append((kind, facts, msgpack.unpackb(raw) if raw else {}))
    return found


@pytest.mark.skipif(shutil.which("cc") is None, reason="no cc")
@pytest.mark.skipif(driver.find() is None, reason="the library is not built")
def test_one_run_leaves_two_files_of_one_process(tmp_path):
    shared = ["cc", "-g", "-O1", "-shared", "-fPIC", "-pthread"]
    cuda, cupti = tmp_path / "libcuda.so.1", tmp_path / "libcupti.so"
    subprocess.run([*shared, "-Wl,-soname,libcuda.so.1", "-o", cuda, SOURCES / "cuda.c", "-ldl"], check=True)
    subprocess.run([*shared, "-o", cupti, SOURCES / "cupti.c", "-ldl"], check=True)
    job = tmp_path / "job.py"
    job.write_text(JOB)
    paths = [] if os.environ.get("MEMLAB_INSTALLED") else [str(ROOT / "python")]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "MEMLAB_CUPTI": str(cupti)}
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    words = [sys.executable, "-m", "memlab", "run", "--driver", "-o", tmp_path / "t.msgpack", job]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    ours, drivers = chunks(tmp_path / "t.msgpack"), chunks(tmp_path / "t.driver.msgpack")
    pid = lambda found: next(payload["pid"] for kind, _, payload in found if kind == 6)
    assert pid(ours) == pid(drivers)
    calls = [facts["calls"] for kind, facts, _ in drivers if kind == 14]
    assert [sum(column) for column in zip(*calls)] == [0, 1]
    assert any(kind == 1 for kind, _, _ in drivers), "Python's frames"
    assert drivers[-1][0] == 15 and drivers[-1][1]["clean"] and drivers[-1][1]["driver"] == 1

