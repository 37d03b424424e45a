"""How columns of memlab's Parquet files become Spark's, which knows no unsigned types.

Owns the mapping, and that it loses nothing: u32 and u64 are BIGINT; streams and addresses, which are arbitrary
64 bits, are DECIMAL(20, 0). A file with a count of 2^63 or more is refused as a whole; no allocator holds that much.
"""

import os

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

# Raw 64-bit patterns; every other u64 counts something.
PATTERNS = ("address", "stream", "main_stream")
MOST = 2**63 - 1
# Rows of one Arrow batch on the way to Spark.
_BATCH_ROWS = 1 << 16


def arrow_type(field):
    """The Arrow type in which `field` is handed to Spark."""
    kind = field.type
    if pa.types.is_uint64(kind) and field.name in PATTERNS:
        return pa.decimal128(20, 0)
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_boolean(kind):
        return pa.bool_()
    return pa.string()


def columns(schema):
    """[(name, Spark's type)] of a table, `job` and `rank` first. The rank is the dataset's: that of `trace`, which
    is null where no recording states it, is left out, as DuckDB and Polars do."""
    names = {pa.int64(): "bigint", pa.float64(): "double", pa.bool_(): "boolean", pa.string(): "string"}
    own = [(field.name, names.get(arrow_type(field), "decimal(20,0)")) for field in schema if field.name != "rank"]
    return [("job", "string"), ("rank", "bigint"), *own]


def ddl(of):
    """`of`, as :func:`columns` gives it, as the text of a schema."""
    return ", ".join(f"`{name}` {kind}" for name, kind in of)


def check(path):
    """Raises `OverflowError` where a count of the Parquet file at `path` does not fit."""
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        counts = [field.name for field in schema if pa.types.is_uint64(field.type) and field.name not in PATTERNS]
        for name in counts:
            most = _most(file, schema.get_field_index(name))
            if most is not None and most > MOST:
                raise OverflowError(f"column {name} has {most}, more than Spark's BIGINT holds")


def _most(file, column):
    """The largest value; from the statistics, where they are there."""
    found = []
    for group in range(file.metadata.num_row_groups):
        statistics = file.metadata.row_group(group).column(column).statistics
        if statistics is not None and statistics.has_min_max:
            # Some writers and readers order unsigned numbers as if they were signed; both ends then tell.
            found += [value % 2**64 for value in (statistics.min, statistics.max)]
        else:
            values = file.read_row_group(group, columns=[file.schema_arrow.names[column]]).column(0)
            found += [value for value in [pc.max(values).as_py()] if value is not None]
    return max(found, default=None)


def batches(data, job, rank):
    """The rows of a Parquet file as Arrow batches for Spark."""
    file = pq.ParquetFile(pa.BufferReader(data))
    fields = [field for field in file.schema_arrow if field.name != "rank"]
    names = ["job", "rank", *(field.name for field in fields)]
    for batch in file.iter_batches(_BATCH_ROWS, columns=[field.name for field in fields]):
        rows = batch.num_rows
        constant = [pa.repeat(pa.scalar(job, pa.string()), rows), pa.repeat(pa.scalar(rank, pa.int64()), rows)]
        own = [batch.column(field.name).cast(arrow_type(field)) for field in fields]
        yield pa.RecordBatch.from_arrays([*constant, *own], names=names)


def pieces(path, most_bytes):
    """The Parquet file at `path` as one or several of about `most_bytes` each, in order."""
    with open(path, "rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) <= most_bytes:
        yield data
        return
    file = pq.ParquetFile(path)
    share = max(1, file.metadata.num_rows * most_bytes // max(1, os.path.getsize(path)))
    for batch in file.iter_batches(share):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_batches([batch]), sink, compression="zstd")
        yield sink.getvalue().to_pybytes()
