#!/usr/bin/env python3
"""A thousand ranks on Spark executors: how long, and that all tables equal those of one machine.

    VENV/bin/python benches/spark.py target/release/memlab [--ranks 1024] [--events 100000] [--distinct 32]
                                     [--master local-cluster[2,1,1024]] [--data DIR]

Needs pyspark, pyarrow and duckdb, and Java 17; builds nothing. Inputs are those of benches/fleet.py. The same files go
through `memlab export --partition` on this machine and through `memlab.spark.analyze`, which keeps its tables as a
dataset, too. DuckDB then looks for rows of one that the other does not have, Spark's own view of the tables is
counted and summed against that, and every frame over all ranks is asked once. Exits 1 where anything differs.
"""

import os
import shutil
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "benches")]

import duckdb  # noqa: E402
import fleet  # noqa: E402

FRAMES = ("ranks", "medians", "outliers", "outlier_lines", "failures", "steps_across", "lines_across")


def told(what, since, note=""):
    print("| %s | %.1f | %s |" % (what, time.perf_counter() - since, note), flush=True)


def session(master, memlab):
    import pyspark
    from pyspark.sql import SparkSession

    os.environ["SPARK_HOME"] = os.path.dirname(pyspark.__file__)
    os.environ.update(PYSPARK_PYTHON=sys.executable, PYTHONPATH=str(ROOT / "python"), MEMLAB_BINARY=str(memlab))
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "8").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def differences(ours, theirs, tables):
    """Tables whose rows are not the same, as multisets, in both datasets."""
    database = duckdb.connect()
    found = []
    for table in tables:
        rows = [f"FROM read_parquet('{of}/job=*/rank=*/{table}.parquet', hive_partitioning = true)" for of in (ours, theirs)]
        sums = [database.sql(f"SELECT count(*), sum(hash(t)::HUGEINT) FROM ({of}) t").fetchall()[0] for of in rows]
        found += [table] if sums[0] != sums[1] or not sums[0][0] else []
    return found


def sums_differ(result, dataset, tables):
    """Tables of which Spark sees other rows, or other sums of their whole numbers, than DuckDB does."""
    from pyspark.sql import functions as f

    database, found = duckdb.connect(), []
    for table in tables:
        frame = result.table(table)
        names = [name for name, kind in frame.dtypes if kind in ("bigint", "decimal(20,0)")]
        sums = [f.coalesce(f.sum(f.col(name).cast("decimal(38,0)")), f.lit(0)).cast("string") for name in names]
        (ours,) = frame.agg(f.count(f.lit(1)).cast("string"), *sums).collect()
        sums = ", ".join(f"coalesce(sum({name}::HUGEINT), 0)::VARCHAR" for name in names)
        rows = f"read_parquet('{dataset}/job=*/rank=*/{table}.parquet', hive_partitioning = true)"
        theirs = database.sql(f"SELECT count(*)::VARCHAR, {sums} FROM {rows}").fetchall()[0]
        found += [table] if tuple(ours) != theirs else []
    return found


def main():
    parser = fleet.arguments()
    parser.add_argument("--master", default="local-cluster[2,1,1024]")
    args = parser.parse_args()
    program, folder = args.memlab.resolve(), args.data.resolve()
    source = fleet.inputs(program, args.ranks, args.events, args.distinct, folder)["pickle"]
    print("| what | s | |\n| --- | ---: | --- |")
    wall, _, _ = fleet.export(program, source, folder / "fleet")
    told("memlab export --partition", time.perf_counter() - wall)
    started = time.perf_counter()
    spark = session(args.master, program)
    told("Spark starts", started)
    import memlab.spark as on_spark

    shutil.rmtree(folder / "spark", ignore_errors=True)
    started = time.perf_counter()
    result = on_spark.analyze(spark, source, output=folder / "spark")
    told("analyze, tables kept as a dataset", started, repr(result)[1:-1])
    for name in FRAMES:
        started = time.perf_counter()
        rows = getattr(result, name).collect()
        told(name, started, "%d rows" % len(rows))
    started = time.perf_counter()
    wrong = differences(folder / "spark", folder / "fleet", on_spark.TABLES)
    wrong += sums_differ(result, folder / "fleet", on_spark.TABLES)
    told("tables compared", started, "differ: " + ", ".join(wrong) if wrong else "equal")
    failed = result.failed.count()
    spark.stop()
    sys.exit(bool(wrong or failed))


if __name__ == "__main__":
    main()
