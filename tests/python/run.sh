#!/usr/bin/env bash
# Builds the wheel, installs it in a fresh environment, runs both entry points and the tests against it.
# Needs python3 with venv, a Rust toolchain and a package registry. CARGO_TARGET_DIR is used if it is set.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python=${PYTHON:-python3}

bash "$root/inject/build.sh"
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

# The recorder of driver calls, from the wheel, with the stand-ins of inject/tests in place of a GPU.
sources=$root/inject/tests/c
mkdir cuda
cc -g -O1 -shared -fPIC -pthread -Wl,-soname,libcuda.so.1 -o cuda/libcuda.so.1 "$sources/cuda.c" -ldl
cc -g -O1 -shared -fPIC -o cuda/libcupti.so "$sources/cupti.c" -ldl
cc -g -O1 -pthread -o cuda/program "$sources/program.c" cuda/libcuda.so.1
export LD_LIBRARY_PATH=$scratch/cuda MEMLAB_CUPTI=$scratch/cuda/libcupti.so
"$scratch/fresh/bin/memlab" record -o plain.msgpack -- cuda/program one 5 >/dev/null && exit 1 || [ $? = 5 ]
"$scratch/fresh/bin/python" -m memlab record -o module.msgpack cuda/program all >/dev/null
printf 'import ctypes\ncuda = ctypes.PyDLL("libcuda.so.1")\ncuda.cuInit(0)\ncuda.cuMemFree_v2(ctypes.c_uint64(0))\n' >calls.py
"$scratch/fresh/bin/memlab" run --driver -o both.msgpack calls.py
for file in plain module both both.driver; do
    "$scratch/fresh/bin/memlab" info "$file.msgpack" >/dev/null
done
unset LD_LIBRARY_PATH MEMLAB_CUPTI

"$scratch/fresh/bin/pip" install --quiet pytest
MEMLAB_INSTALLED=1 MEMLAB_BINARY="$scratch/fresh/bin/memlab" \
    "$scratch/fresh/bin/python" -m pytest -q -p no:cacheprovider --rootdir "$root" "$root/tests/python"
