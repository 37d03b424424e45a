#!/usr/bin/env bash
# Reads what memlab exports with Polars and DuckDB, in a fresh environment: every table (tables.py), and a dataset of
# many ranks, asked the questions of docs/fleet.md (fleet.py). Needs python3 with venv and a package registry.
# MEMLAB_BINARY is the program to test; without it the release build of this checkout.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python=${PYTHON:-python3}
memlab=${MEMLAB_BINARY:-${CARGO_TARGET_DIR:-$root/target}/release/memlab}
[ -x "$memlab" ] || {
    printf 'run_tables.sh: there is no %s: build it, or set MEMLAB_BINARY\n' "$memlab" >&2
    exit 1
}

"$python" -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install --quiet 'polars>=1,<2' 'duckdb>=1.1,<2'
for reader in tables fleet; do
    mkdir "$scratch/$reader"
    "$scratch/venv/bin/python" -B "$root/tests/exports/$reader.py" "$memlab" "$root" "$scratch/$reader"
done
