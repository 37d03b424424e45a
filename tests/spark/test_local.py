"""How files get in and tables get out, and what goes wrong with them."""

import os
import shutil
import subprocess
import sys

import compare
import memlab.spark
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from memlab.spark import listing, mapping, program

SMALL = ("trace", "lines", "ooms", "segments")


def test_importing_memlab_imports_no_pyspark():
    check = "import sys, memlab; sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0


def test_bytes_that_spark_reads_give_the_same(local, run, few, tmp_path):
    """As from HDFS or S3; a file whose checksum is wrong cannot be read, and stops nothing."""
    run("export", few, "-o", tmp_path / "fleet", "--partition", code=2)
    shutil.copytree(few, tmp_path / "here" / "007")
    damaged = tmp_path / "here" / "007" / "rank[98].pickle"
    shutil.copy(few / "rank1.pickle", damaged)
    damaged.with_name(f".{damaged.name}.crc").write_bytes(b"crc\0\0\0\2\0" + b"\1" * 400)
    with memlab.spark.analyze(local, f"file:{tmp_path}/here", read="spark", tables=SMALL) as result:
        compare.assert_tables(result, tmp_path / "fleet", tmp_path, SMALL)
        failed = {row["path"].rsplit("/", 1)[1]: row["error"] for row in compare.rows(result.failed)}
    assert set(failed) == {"rank999.pickle", "rank[98].pickle"}, failed
    assert failed["rank999.pickle"].startswith("failed to read file:/") and "complete" in failed["rank999.pickle"]
    assert "no content" in failed["rank[98].pickle"]


def test_what_goes_wrong_is_told_by_file(local, few, tmp_path):
    folder = tmp_path / "-x; touch gone" / "run"
    shutil.copytree(few, folder)
    shutil.copy(few / "rank0.pickle.gz", folder / "-rank0.pickle.gz")
    shutil.copy(few / "rank0.pickle.gz", folder / "whose.pickle.gz")
    (folder / "rank5.pickle").write_bytes(b"")
    (folder / "rank6.msgpack").write_bytes(b"\x93\0\1\2")
    paths = [folder, folder / "rank77.pickle"]
    with memlab.spark.analyze(local, paths, tables=["trace"]) as result:
        assert sorted(row.rank for row in result.trace.select("rank").collect()) == [0, 1, 2, 3]
        failed = {os.path.basename(row["path"]): row for row in compare.rows(result.failed)}
    names = ["rank0.pickle.gz", "rank5.pickle", "rank6.msgpack", "rank77.pickle", "rank999.pickle", "whose.pickle.gz"]
    assert sorted(failed) == names
    # `-` sorts before letters: the other file of rank 0 came first.
    assert failed["rank0.pickle.gz"]["error"].endswith(f"is rank 0 of job run, and so is {folder}/-rank0.pickle.gz")
    assert "neither the recording nor its name" in failed["whose.pickle.gz"]["error"]
    assert failed["whose.pickle.gz"]["hint"].startswith("name the file like")
    assert all(row["error"].startswith(("failed to", str(folder))) for row in failed.values())
    assert not os.path.exists("gone")


def test_a_dataset_is_kept_as_the_program_writes_it(local, run, few, tmp_path):
    run("export", few, "-o", tmp_path / "theirs", "--partition", code=2)
    ours, tables = tmp_path / "ours", memlab.spark.TABLES
    memlab.spark.analyze(local, few, output=ours, tables=tables)
    names = sorted(str(path.relative_to(ours)) for path in ours.rglob("*"))
    assert names == sorted(str(path.relative_to(tmp_path / "theirs")) for path in (tmp_path / "theirs").rglob("*"))
    for name in names:
        assert (ours / name).is_dir() or (ours / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes(), name
    again = memlab.spark.analyze(local, few, output=ours, tables=["trace"])
    assert [row.error.split()[-2:] for row in again.failed.collect()][0] == ["exists", "already"]
    assert again.failed.count() == 5 and compare.manifest(ours) == compare.manifest(tmp_path / "theirs")
    (ours / "job=007/rank=0/thesis.txt").write_text("precious")
    forced = memlab.spark.analyze(local, few, output=ours, force=True, tables=["trace"])
    assert [row.error.split()[-1] for row in forced.failed.collect()] == ["thesis.txt", "50"]
    read = memlab.spark.read(local, tmp_path / "theirs")
    assert read.ranks.count() == 4 and read.failed.count() == 1
    compare.assert_tables(read, tmp_path / "theirs", tmp_path / "read", SMALL)


def test_where_nothing_can_be_read_that_is_said(local, few, tmp_path):
    with pytest.raises(ValueError, match="there is no recording in"):
        memlab.spark.analyze(local, tmp_path)
    with pytest.raises(ValueError, match="tables="):
        memlab.spark.analyze(local, few, tables=["nonsense"])
    with memlab.spark.analyze(local, few / "rank999.pickle") as result:
        assert result.failed.count() == 1
        with pytest.raises(ValueError, match="no recording could be analysed, 1 failed: failed to read"):
            result.lines
        with pytest.raises(AttributeError):
            result.nonsense


def test_a_program_that_was_sent_is_the_one_that_is_used(local, few, tmp_path):
    told = tmp_path / "memlab"
    told.write_text(f'#!/bin/sh\ntouch "{tmp_path}/called"\nexec "{os.environ["MEMLAB_BINARY"]}" "$@"\n')
    told.chmod(0o755)
    memlab.spark.ship(local, told)
    with memlab.spark.analyze(local, few / "rank0.pickle.gz", tables=["trace"]) as result:
        assert result.trace.count() == 1
    assert (tmp_path / "called").exists()


def test_a_count_that_does_not_fit_is_refused_and_a_pattern_is_kept(tmp_path):
    for statistics in (True, False):
        for value, fits in ((2**63 - 1, True), (2**63, False), (2**64 - 1, False)):
            table = pa.table({"bytes": pa.array([1, value], pa.uint64()), "stream": pa.array([0, value], pa.uint64())})
            pq.write_table(table, tmp_path / "t.parquet", write_statistics=statistics)
            if not fits:
                with pytest.raises(OverflowError, match=f"column bytes has {value}"):
                    mapping.check(tmp_path / "t.parquet")
                continue
            mapping.check(tmp_path / "t.parquet")
            (batch,) = mapping.batches((tmp_path / "t.parquet").read_bytes(), "a", 3)
            assert batch.to_pydict() == {"job": ["a"] * 2, "rank": [3] * 2, "bytes": [1, value], "stream": [0, value]}


def test_a_long_table_travels_in_pieces(tmp_path):
    table = pa.table({"bytes": pa.array(range(100_000), pa.uint64())})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=30_000)
    pieces = list(mapping.pieces(tmp_path / "t.parquet", 50_000))
    assert len(pieces) > 2
    rows = [value for piece in pieces for batch in mapping.batches(piece, "a", 0) for value in batch.to_pydict()["bytes"]]
    assert rows == list(range(100_000))


def test_names_from_stores_lead_nowhere_else():
    assert program.local_name("s3a://bucket/a/run 7/rank_3/x.pickle") == "./a/run 7/rank_3/x.pickle"
    assert program.local_name("hdfs://node:9000/../../etc/-rank1.pkl") == "./etc/-rank1.pkl"
    assert program.local_name("file:/tmp//./rank0.pickle.gz") == "./tmp/rank0.pickle.gz"
    assert listing.literal("a[1]*") == "a\\[1\\]\\*"


def test_files_that_spark_found_count_as_in_a_folder():
    root = "s3a://bucket/runs/"
    for name, meant in (
        ("1/2/3/4/rank0.pickle.gz", True),
        ("1/2/3/4/5/rank0.pickle.gz", False),
        ("rank0.json", False),
        ("rank0.msgpack", True),
    ):
        assert listing.is_meant(root + name, root) == meant, name
    assert listing.is_meant("s3a://bucket/runs/odd.name", "s3a://bucket/runs/odd.name")
    assert listing.is_meant("hdfs://node/user/me/runs/1/2/3/4/5/r0.pkl", "runs/*")


def test_local_paths_are_opened_and_others_left_to_spark(tmp_path):
    here = tmp_path / "a"
    here.mkdir()
    assert listing.choose([here, tmp_path / "missing.pickle"], "auto")[1]
    assert listing.choose("file:/nowhere", "auto")[1]
    assert not listing.choose("s3a://bucket/run", "auto")[1]
    assert not listing.choose("only/in/hdfs", "auto")[1]
    with pytest.raises(ValueError, match="two calls"):
        listing.choose([here, "s3a://bucket/run"], "auto")


def test_the_drivers_calls_of_a_recording_are_no_rank(tmp_path):
    names = ["r0.driver.msgpack", "r0.msgpack", "r1.driver.msgpack", "r2.driver"]
    for name in names:
        (tmp_path / name).write_bytes(b"")
    found = [os.path.basename(path) for path in listing.shared([str(tmp_path)])]
    assert found == ["r0.msgpack", "r1.driver.msgpack"], "calls alone are a recording of their own"
    rows = [(f"s3a://bucket/{name}", 1) for name in names]
    assert [row[0] for row in listing.without_companions(rows, lambda row: row[0])] == [rows[place][0] for place in (1, 2, 3)]
