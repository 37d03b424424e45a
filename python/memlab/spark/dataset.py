"""The dataset that `output=` keeps: the layout of docs/fleet.md, as `memlab export --partition` writes it.

Owns how ranks that tasks have written get into their place, in the order of the files, and its `_memlab.json`.
Tasks write into a folder that readers pass over; only what the driver moves from there is in the dataset.
"""

import json
import os
import shutil
import tempfile

SCHEMA = 1
MANIFEST = "_memlab.json"
ENTRY = ("job", "rank", "folder", "path", "file_bytes", "events", "devices", "complete", "tables", "warnings")


def manifest(output):
    """What is said about the dataset `output`; an empty one where there is none."""
    path = os.path.join(output, MANIFEST)
    if not os.path.exists(path):
        return {"schema": SCHEMA, "ranks": [], "failed": []}
    try:
        with open(path, encoding="utf-8") as file:
            read = json.load(file)
        schema = read["schema"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is not memlab's, or is damaged: write to another folder") from None
    if schema != SCHEMA:
        raise ValueError(f"{output} was written by {read.get('tool')}, with another layout: write to another folder")
    return read


def staging(output):
    """A new folder inside `output` that readers pass over."""
    os.makedirs(output, exist_ok=True)
    folder = tempfile.mkdtemp(prefix=".memlab-", suffix=".tmp", dir=output)
    os.chmod(folder, 0o777)  # Executors may run as somebody else.
    return folder


def place(entries, output, force, tables):
    """Moves the ranks of `entries` into `output`. (those that are placed, failures as (entry, its error))."""
    placed, failed = [], []
    for entry in entries:
        made = os.path.join(entry["target"], entry["folder"])
        if not os.path.isdir(made):
            raise FileNotFoundError(
                f"an executor wrote {made}, and it is not there: output has to be on a file system that the driver "
                "and all executors share"
            )
        target = os.path.join(output, entry["folder"])
        error = _obstacle(target, force, tables)
        if error is None:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if os.path.isdir(target):
                os.rename(target, os.path.join(entry["target"], "old"))
            os.rename(made, target)
            placed.append(entry)
        else:
            failed.append((entry, error))
    return placed, failed


def _obstacle(target, force, tables):
    """Why `target` must not be written, or None."""
    if not os.path.lexists(target):
        return None
    if not os.path.isdir(target) or os.path.islink(target):
        return {"error": f"cannot write {target}: it is no folder", "hint": "name another output"}
    if not force:
        hint = "use force=True to replace it, name another job=, or write elsewhere"
        return {"error": f"{target} exists already", "hint": hint}
    others = sorted(set(os.listdir(target)) - {f"{table}.parquet" for table in tables})
    if others:
        return {"error": f"cannot replace {target}: it holds {others[0]}", "hint": "move it away first"}
    return None


def write(output, known, placed, failed):
    """Puts `_memlab.json` of `known`, with `placed` in place of entries of the same folder, into `output`."""
    replaced = {entry["folder"] for entry in placed}
    ranks = [entry for entry in known["ranks"] if entry["folder"] not in replaced]
    ranks += [{key: entry[key] for key in ENTRY} for entry in placed]
    ranks.sort(key=lambda entry: (entry["job"], entry["rank"]))
    head = {"schema": SCHEMA, "tool": placed[-1]["tool"], "tables_schema": placed[-1]["tables_schema"]}
    told = [{"path": entry["path"], "error": entry["error"]} for entry in failed]
    text = json.dumps({**head, "ranks": ranks, "failed": told}, indent=2, ensure_ascii=False) + "\n"
    part = os.path.join(output, f".{MANIFEST}.tmp")
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(part, os.path.join(output, MANIFEST))


def drop(folder):
    """Takes away what was not placed."""
    shutil.rmtree(folder, ignore_errors=True)
