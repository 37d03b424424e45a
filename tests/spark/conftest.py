"""Sessions, and jobs made of this repository's recordings."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTDATA = Path(__file__).resolve().parents[2] / "testdata"
USUAL = "torch/gpt.pickle.gz"


@pytest.fixture(scope="session")
def run():
    """Calls the program: what it printed."""
    program = os.environ["MEMLAB_BINARY"]

    def call(*words, code=0):
        done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
        assert done.returncode == code, done
        return done.stdout

    return call


def put(folder, ranks):
    """Recordings under the names of ranks, and one that ends in its middle."""
    folder.mkdir(parents=True)
    for rank, name in ranks.items():
        shutil.copy(TESTDATA / name, folder / f"rank{rank}{''.join(Path(name).suffixes)}")
    (folder / "rank999.pickle").write_bytes((TESTDATA / "torch/cnn.pickle").read_bytes()[:50])
    return folder


@pytest.fixture(scope="session")
def job(tmp_path_factory):
    """64 ranks: one keeps something, two run out of memory, one holds memory on another device."""
    odd = {
        3: "torch/oom.pickle.gz",
        5: "torch/streams.pickle",
        9: "faults/foreign_device.pickle.gz",
        17: "torch/leak_loss.pickle.gz",
        42: "emitter/oom.msgpack",
    }
    return put(tmp_path_factory.mktemp("traces") / "run 7", {rank: odd.get(rank, USUAL) for rank in range(64)})


@pytest.fixture(scope="session")
def few(tmp_path_factory):
    """A job of few ranks, whose name is a number."""
    names = ("torch/noleak.pickle.gz", "torch/streams.pickle", "torch/oom.pickle.gz", "torch/ring.pickle")
    return put(tmp_path_factory.mktemp("traces") / "007", dict(enumerate(names)))


def _session(master):
    import pyspark
    from pyspark.sql import SparkSession

    # The executors of a local cluster are started from there.
    os.environ["SPARK_HOME"] = os.path.dirname(pyspark.__file__)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("memlab").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


@pytest.fixture(scope="module")
def local():
    session = _session("local[2]")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def cluster():
    session = _session("local-cluster[2,1,1024]")
    yield session
    session.stop()


def analyzed(run, folder):
    """What `memlab analyze` says about the folder."""
    return json.loads(run("analyze", folder, "--json", "--top", "0", code=2))
