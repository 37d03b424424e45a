"""One recording through the memlab program, on an executor.

Owns where the program is found, how it is called and what its words mean. Runs no shell: paths are arguments, behind
`--` and never at the beginning of a word that could be an option.
"""

import json
import os
import random
import signal
import subprocess
import tempfile

from .. import _binary
from .listing import without_store

SHIPPED = "memlab-program"


def find(binary):
    """The program: the one named, the one that was shipped, or the one that is installed here."""
    if binary is not None:
        if os.access(binary, os.X_OK) and os.path.isfile(binary):
            return binary
        raise FileNotFoundError(f"there is no program {binary} on this executor: install memlab there, or ship it")
    path = _shipped() or _binary.find()
    if path is None:
        raise FileNotFoundError(
            "the memlab program is not on this executor: pip install memlab there, name binary=, or call "
            "memlab.spark.ship(spark) first"
        )
    return path


def _shipped():
    from pyspark import SparkFiles

    try:
        path = SparkFiles.get(SHIPPED)
    except Exception:  # Outside of Spark, and with Spark Connect, there is no such folder.
        return None
    return path if os.path.isfile(path) else None


def scratch(folder):
    """A folder that goes away with the block; Spark removes it with its own where the worker is killed."""
    own = [path for path in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if os.path.isdir(path)]
    return tempfile.TemporaryDirectory(prefix="memlab-", dir=folder or (random.choice(own) if own else None))


def export(program, file, target, tables, job, working_folder=None):
    """Writes the tables of `file` into the dataset `target`. (its manifest's entry, None) or (None, its error).

    The entry is that of docs/fleet.md. The error has `error` and `hint`, as the program says them.
    """
    words = [program, "export", "--partition", "--quiet", "--color", "never", "--output", target]
    words += [word for table in tables for word in ("--table", table)]
    words += [f"--job={job}"] if job is not None else []
    # One task, one core: Spark already runs as many tasks as there are.
    environment = {"RAYON_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1", **os.environ}
    done = subprocess.run(
        [*words, "--", file], cwd=working_folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True
    )
    said = done.stderr.decode("utf-8", "replace")
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        hint = "the executor may have run out of memory: give it more, or fewer tasks at one time"
        return None, {"error": f"memlab was ended by {name}", "hint": hint}
    if done.returncode:
        return None, _error(said, done.returncode)
    with open(os.path.join(target, "_memlab.json"), encoding="utf-8") as manifest:
        read = json.load(manifest)
    return {**read["ranks"][0], "tool": read["tool"], "tables_schema": read["tables_schema"]}, None


def _error(said, code):
    """What stands behind `error:` and `hint:`."""
    lines = said.splitlines()
    found = {}
    for line in lines:
        for word in ("error", "hint"):
            if line.startswith(f"{word}: "):
                found.setdefault(word, line[len(word) + 2 :])
    error = found.get("error") or f"memlab ended with {code}: {' '.join(lines)[-500:] or 'it said nothing'}"
    return {"error": error, "hint": found.get("hint")}


def local_name(uri):
    """A relative path that tells rank and job as `uri` does, and leads nowhere else."""
    parts = [part for part in without_store(uri).replace("\0", "_").split("/") if part not in ("", ".", "..")]
    return os.path.join(".", *parts[-4:])
