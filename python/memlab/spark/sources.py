"""Where the tables of a `Result` come from: rows that Spark keeps, or a dataset of Parquet files.

Owns that both give the same columns and the same types.
"""

import collections
import os

from pyspark.sql import functions as f
from pyspark.sql import types

from . import listing, mapping, tasks

_TASK_BYTES = 16 << 20


class Pieces:
    """Tables as Parquet bytes in rows of `tasks.ROWS`, which Spark keeps in memory and on disk."""

    def __init__(self, rows, entries):
        self._rows, self._numbers = rows, [entry["number"] for entry in entries]
        self._columns = {}
        self._bytes = collections.Counter()
        for entry in entries:
            self._bytes.update(entry["bytes"])
            for table, columns in entry["columns"].items():
                if self._columns.setdefault(table, columns) != columns:
                    raise RuntimeError(f"executors have different versions of memlab: {table} of {entry['path']}")

    def tables(self):
        return list(self._columns)

    def table(self, name):
        rows = self._rows.where(f.col("table") == name)
        # Few numbers where files were refused, instead of thousands where they were not.
        numbers = set(self._numbers)
        refused = [number for number in range(max(numbers) + 1) if number not in numbers]
        rows = rows.where(~f.col("number").isin(refused)) if refused else rows
        # A short table is worth few tasks; a task may have to hold what Spark hands it at once.
        rows = rows.coalesce(max(1, self._bytes[name] // _TASK_BYTES))
        return rows.select("job", "rank", "parquet").mapInArrow(tasks.decoded, mapping.ddl(self._columns[name]))

    def release(self):
        self._rows.unpersist()


class Dataset:
    """Tables of the dataset in a folder."""

    def __init__(self, spark, folder, entries):
        self._spark, self._folder, self._entries = spark, folder, entries

    def tables(self):
        return list(dict.fromkeys(table for entry in self._entries for table in entry["tables"]))

    def table(self, name):
        import pyarrow.parquet as pq

        folders = [entry["folder"] for entry in self._entries if name in entry["tables"]]
        arrow = pq.read_schema(os.path.join(self._folder, folders[0], f"{name}.parquet"))
        root = "file://" + self._folder
        paths = [f"{root}/{folder}/{name}.parquet" for folder in folders]
        # Jobs such as `007` would be taken for numbers, were the schema not given.
        inside = [types.StructField(field.name, _stored(field)) for field in arrow if field.name != "rank"]
        schema = types.StructType([*inside, types.StructField("job", types.StringType()), types.StructField("rank", types.LongType())])
        reader = self._spark.read.schema(schema).option("basePath", listing.literal(root))
        rows = reader.parquet(*map(listing.literal, paths))
        return rows.select(*(_exact(name, kind, schema[name].dataType) for name, kind in mapping.columns(arrow)))

    def release(self):
        pass


def _exact(name, kind, stored):
    """The column in its type; a count that does not fit ends the query, instead of becoming null."""
    column = f.col(name)
    if kind == "bigint" and isinstance(stored, types.DecimalType):
        text = f.lit(f"column {name} has a value that Spark's BIGINT does not hold")
        return f.when(column > mapping.MOST, f.raise_error(text).cast("bigint")).otherwise(column.cast("bigint")).alias(name)
    return column.cast(kind).alias(name)


def _stored(field):
    """The type as which Spark reads a column of the Parquet files."""
    import pyarrow as pa

    if pa.types.is_uint64(field.type):
        return types.DecimalType(20, 0)
    simple = {pa.bool_(): types.BooleanType(), pa.float64(): types.DoubleType()}
    return types.LongType() if pa.types.is_integer(field.type) else simple.get(field.type, types.StringType())
