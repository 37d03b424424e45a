#!/usr/bin/env bash
# Builds the wheel, installs it in a fresh environment, runs both entry points and the tests against it.
# Needs python3 with venv, a Rust toolchain and a package registry. CARGO_TARGET_DIR is used if it is set.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python=${PYTHON:-python3}

"$python" -m venv "$scratch/build"
"$scratch/build/bin/pip" install --quiet 'maturin>=1.7,<2'
"$scratch/build/bin/maturin" build --release --locked --manifest-path "$root/Cargo.toml" --out "$scratch/wheel" 2>&1 | tail -5

"$python" -m venv "$scratch/fresh"
"$scratch/fresh/bin/pip" install --quiet "$scratch"/wheel/memlab-*.whl
cd "$scratch"

# Both entry points, each doing the other's work too.
printf 'import sys\nprint("ran", __name__, sys.argv[1:])\n' >job.py
[ "$("$scratch/fresh/bin/memlab" run -o one.msgpack job.py --flag x)" = "ran __main__ ['--flag', 'x']" ]
[ "$("$scratch/fresh/bin/python" -m memlab run -o two.msgpack -m job y)" = "ran __main__ ['y']" ]
"$scratch/fresh/bin/memlab" info one.msgpack two.msgpack >/dev/null
"$scratch/fresh/bin/python" -m memlab analyze "$root/testdata/emitter/oom.msgpack" >/dev/null
"$scratch/fresh/bin/python" -c 'import memlab; print("memlab", memlab.__version__)'

"$scratch/fresh/bin/pip" install --quiet pytest
MEMLAB_INSTALLED=1 MEMLAB_BINARY="$scratch/fresh/bin/memlab" \
    "$scratch/fresh/bin/python" -m pytest -q -p no:cacheprovider --rootdir "$root" "$root/tests/python"
