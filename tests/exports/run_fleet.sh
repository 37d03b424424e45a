#!/usr/bin/env bash
# Asks a dataset of many ranks the questions of docs/fleet.md with DuckDB and Polars, in a fresh environment. Needs
# python3 with venv and a package registry. MEMLAB_BINARY is the program to test; without it the release build of this
# checkout.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python=${PYTHON:-python3}
memlab=${MEMLAB_BINARY:-${CARGO_TARGET_DIR:-$root/target}/release/memlab}
[ -x "$memlab" ] || {
    printf 'run_fleet.sh: there is no %s: build it, or set MEMLAB_BINARY\n' "$memlab" >&2
    exit 1
}

"$python" -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install --quiet 'polars>=1,<2' 'duckdb>=1.1,<2'
"$scratch/venv/bin/python" -B "$root/tests/exports/fleet.py" "$memlab" "$root" "$scratch"
