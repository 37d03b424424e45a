"""Which files are meant, and how an executor gets at each: in place, or as bytes that Spark has read.

Owns the rules of a folder, which are those of `memlab export --partition`. Opens no recording.
"""

import os
import re

DEEPEST = 4
ENDINGS = (".msgpack", ".pickle", ".pkl", ".pickle.gz", ".pkl.gz", ".pickle.zst", ".pkl.zst")
READS = ("auto", "shared", "spark")
# A larger file does not fit into a row of Spark's together with what else is in the worker's memory.
MOST_ROW_BYTES = 1 << 30

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):")


def choose(paths, read):
    """(`paths` as a list of texts, whether they are read in place)."""
    if read not in READS:
        raise ValueError(f"read={read!r}: it is one of {', '.join(READS)}")
    paths = [os.fspath(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    if not paths:
        raise ValueError("no path is given")
    if read != "auto":
        return paths, read == "shared"
    # A path without a scheme may be of Spark's default file system, `hdfs:` on many clusters: what is here is local.
    schemes = [None if os.path.exists(path) else _SCHEME.match(path) for path in paths]
    is_here = any(os.path.exists(path) for path, scheme in zip(paths, schemes) if scheme is None)
    local = {scheme.group(1).lower() == "file" if scheme else is_here for scheme in schemes}
    if len(local) > 1:
        raise ValueError("some paths are local and some are not: analyse them in two calls")
    return paths, local.pop()


def plain(path):
    """The path of a `file:` URI, absolute: executors have another working folder than the driver."""
    if path[:5].lower() == "file:":
        path = path[5:]
        path = "/" + path.lstrip("/") if path.startswith("/") else path
    return os.path.abspath(path)


def shared(paths):
    """Files below local `paths`, in the order of the arguments and then of names."""
    files = []
    for path in map(plain, paths):
        if not os.path.isdir(path):
            files.append(path)
            continue
        before = len(files)
        files += _below(path)
        if len(files) == before:
            raise _nothing(path)
    return without_companions(files, lambda file: file)


def _below(folder):
    found, todo = [], [(folder, DEEPEST)]
    while todo:
        path, deeper = todo.pop()
        if deeper is None:
            found.append(path)
            continue
        inside = []
        with os.scandir(path) as entries:
            for entry in sorted(entries, key=lambda entry: os.fsencode(entry.name)):
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    inside += [(entry.path, deeper - 1)] if deeper else []
                elif entry.name.endswith(ENDINGS) and entry.is_file():
                    inside.append((entry.path, None))
        todo += reversed(inside)
    return found


def through_spark(spark, paths):
    """(path, bytes) of every file below `paths`, as Spark names them: `s3a://bucket/run7/rank0.pickle`."""
    files = []
    for path in paths:
        reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        rows = reader.load(path).select("path", "length").collect()
        rows = sorted((row.path.split("/"), row.path, row.length) for row in rows)
        found = [(name, length) for _, name, length in rows if is_meant(name, path)]
        if not found:
            raise _nothing(path)
        files += found
    return without_companions(files, lambda file: file[0])


def without_companions(files, path_of):
    """`files` without the driver's calls (`job.driver.msgpack`) of a recording that is among them: they are no rank."""
    known = {path_of(file) for file in files}
    return [file for file in files if _recording_of(path_of(file)) not in known or _recording_of(path_of(file)) == path_of(file)]


def _recording_of(path):
    """The recording that `path` would belong to as its driver calls, else `path` itself."""
    return re.sub(r"\.driver(\.[^./]+)$", r"\1", path)


def is_meant(name, path):
    """Whether the file `name`, which Spark found below `path`, is a recording, or is what `path` names itself."""
    root = without_store(path).rstrip("/")
    behind = without_store(name).partition(root + "/")
    if without_store(name) == root:
        return True
    # Of a pattern it is not known where the folder ends: there is no deepest one.
    depth = behind[2].count("/") if behind[1] else 0
    return name.endswith(ENDINGS) and depth <= DEEPEST


def without_store(uri):
    """The path of a URI, without its scheme and host."""
    return re.sub(r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?", "", uri)


def literal(path):
    """`path` for Spark's readers, which take some signs for patterns."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)


def _nothing(path):
    return ValueError(f"there is no recording in {path}: in a folder, files that end in {', '.join(ENDINGS)} are")
