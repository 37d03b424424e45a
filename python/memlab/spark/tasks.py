"""What a task does: each of its files through the program, once, and the tables as rows.

Owns the rows between both sides. One row per file says how it went (`info`, JSON; no `table`); without an output
folder, rows with Parquet bytes follow, one or several for each table. A task that is repeated gives the same rows,
and what an earlier try left behind is in a folder that nobody looks into.
"""

import json
import os
import uuid

import pyarrow as pa
import pyarrow.parquet as pq

from . import mapping, program

ROWS = [
    ("number", "bigint"),
    ("job", "string"),
    ("rank", "bigint"),
    ("table", "string"),
    ("info", "string"),
    ("parquet", "binary"),
]
_ARROW = pa.schema(
    [
        ("number", pa.int64()),
        ("job", pa.string()),
        ("rank", pa.int64()),
        ("table", pa.string()),
        ("info", pa.string()),
        ("parquet", pa.binary()),
    ]
)
_PIECE_BYTES = 16 << 20


class Mapper:
    """The function that Spark maps over batches of files; its fields travel to the executors."""

    def __init__(self, tables, binary=None, job=None, scratch=None, staging=None):
        self._tables, self._binary, self._job = tuple(tables), binary, job
        self._scratch, self._staging = scratch, staging

    def in_place(self, batches):
        """Batches of (`number`, `file`: the path's bytes)."""
        path = program.find(self._binary)
        for batch in batches:
            for number, file in zip(batch.column("number"), batch.column("file")):
                file = os.fsdecode(file.as_py())
                with program.scratch(self._scratch) as folder:
                    yield from self._rows(number.as_py(), path, folder, file)

    def from_bytes(self, batches):
        """Batches of (`number`, `path`, `content`): the file is written where only this task looks."""
        program_path = os.path.abspath(program.find(self._binary))
        for batch in batches:
            columns = (batch.column(name) for name in ("number", "path", "content"))
            for number, uri, content in zip(*columns):
                with program.scratch(self._scratch) as folder:
                    name = program.local_name(uri.as_py())
                    inside = os.path.join(folder, "in")
                    try:
                        os.makedirs(os.path.join(inside, os.path.dirname(name)))
                        with open(os.path.join(inside, name), "wb") as file:
                            file.write(content.as_buffer())
                    except OSError as error:
                        yield _row(number.as_py(), info={"error": f"cannot write a copy: {error.strerror}"})
                        continue
                    yield from self._rows(number.as_py(), program_path, folder, name, inside, uri.as_py())

    def _rows(self, number, program_path, folder, file, working_folder=None, uri=None):
        """The rows of one file, as batches of one."""
        target = os.path.join(folder, "out")
        if self._staging is not None:
            target = os.path.join(self._staging, f"{number}-{uuid.uuid4().hex}")
        entry, error = program.export(program_path, file, target, self._tables, self._job, working_folder)
        if entry is not None:
            error = self._checked(entry, target)
        if error is not None:
            if uri is not None:
                error = {**error, "error": error["error"].replace(file, uri)}
            yield _row(number, info=error)
            return
        if uri is not None:
            entry["path"] = uri
        entry["target"] = target if self._staging is not None else None
        who = (entry["job"], entry["rank"])
        yield _row(number, *who, info=entry)
        if self._staging is None:
            for table in entry["tables"]:
                path = os.path.join(target, entry["folder"], f"{table}.parquet")
                for data in mapping.pieces(path, _PIECE_BYTES):
                    yield _row(number, *who, table=table, parquet=data)

    def _checked(self, entry, target):
        """What makes the tables of `entry` unfit for Spark, or None; adds their columns to it."""
        if entry["rank"] > mapping.MOST:
            return {"error": f"failed to export {entry['path']}: there is no rank {entry['rank']} in Spark"}
        entry["columns"], entry["bytes"] = {}, {}
        for table in entry["tables"]:
            path = os.path.join(target, entry["folder"], f"{table}.parquet")
            try:
                mapping.check(path)
            except OverflowError as error:
                return {"error": f"failed to export {entry['path']}: table {table}: {error}"}
            entry["columns"][table] = mapping.columns(pq.read_schema(path))
            entry["bytes"][table] = os.path.getsize(path)
        return None


def _row(number, job=None, rank=None, table=None, info=None, parquet=None):
    info = None if info is None else json.dumps(info)
    values = [[number], [job], [rank], [table], [info], [parquet]]
    return pa.RecordBatch.from_arrays([pa.array(v, f.type) for v, f in zip(values, _ARROW)], schema=_ARROW)


def decoded(batches):
    """Rows with Parquet bytes become the rows of their table."""
    for batch in batches:
        for job, rank, data in zip(*(batch.column(name) for name in ("job", "rank", "parquet"))):
            yield from mapping.batches(data.as_buffer(), job.as_py(), rank.as_py())
