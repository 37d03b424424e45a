#!/usr/bin/env bash
# The driver's calls beside PyTorch's allocator, under CuPy and under JAX, and what recording costs; on a machine with a GPU.
# Usage: layers.sh MEMLAB FOLDER OUT, where MEMLAB is the program, FOLDER holds libmemlab_inject.so, and recordings and the
# right values go to OUT. Needs python3 with msgpack and torch; CuPy, JAX and nvcc are left out where they are not there.
# Takes no longer than $SECONDS_IN_ALL (280). Prints comparisons; exit code 1 if one fails.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
memlab=$(realpath "$1")
export MEMLAB_INJECT=$(realpath "$2")
mkdir -p "$3"
out=$(realpath "$3")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
limit=${SECONDS_IN_ALL:-280}
status=0

# Copies, so that no path of the checkout gets into the recordings.
cp -r "$root/python/memlab" "$here/jobs" "$scratch"
export PYTHONPATH=$scratch${PYTHONPATH:+:$PYTHONPATH} PYTHON=${PYTHON:-python3}
cd "$scratch/jobs" || exit 2

say() { printf '\n== %s (%s s)\n' "$*" "$SECONDS"; }

fail() {
    printf 'DIFF %s\n' "$*"
    status=1
}

# Runs a command for at most MOST seconds, and no longer than there is time for all.
within() {
    local most=$1 left=$((limit - SECONDS))
    shift
    ((left < most)) && most=$left
    if ((most <= 0)); then
        echo "no time left for: $*"
        return 1
    fi
    timeout -k 5 "$most" "$@"
}

# NAME CHECK COMMAND...: keeps the last line of the command's output as the right values, and holds NAME's recordings against it.
judged() {
    local name=$1 check=$2 files=("$out/$1.msgpack")
    shift 2
    [ "$check" = layers ] && files+=("$out/$name.driver.msgpack")
    say "$name"
    rm -f "$out/$name".*msgpack "$out/$name.json"
    if within 90 "$@" >"$scratch/$name.log"; then
        tail -n 1 "$scratch/$name.log" >"$out/$name.json"
        within 60 "$PYTHON" "$here/$check.py" "${files[@]}" "$out/$name.json" || fail "$name: a comparison does not hold"
    else
        fail "$name: the program failed"
        tail -n 20 "$scratch/$name.log"
    fi
}

there() { "$PYTHON" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$1') is None)"; }

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader

judged cnn layers "$memlab" run --driver -o "$out/cnn.msgpack" cnn.py
judged varlen layers "$memlab" run --driver -o "$out/varlen.msgpack" varlen.py
judged varlen_expandable layers env PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True \
    "$memlab" run --driver -o "$out/varlen_expandable.msgpack" varlen.py

record() { printf '%s\n' "$memlab" record --hook cupti -o "$out/$1.msgpack" --; }
if there cupy; then
    mapfile -t words < <(record cupy)
    judged cupy pools "${words[@]}" "$PYTHON" cupy_job.py
fi
if there jax; then
    mapfile -t words < <(record jax)
    judged jax pools "${words[@]}" "$PYTHON" jax_job.py
    mapfile -t words < <(record jax_on_demand)
    judged jax_on_demand pools env XLA_PYTHON_CLIENT_PREALLOCATE=false "${words[@]}" "$PYTHON" jax_job.py
fi

say "overhead"
PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
if command -v nvcc >/dev/null; then
    within 60 nvcc -O2 -o pairs pairs.cu || fail "pairs.cu does not build"
fi
mkdir "$scratch/recordings"
left=$((limit - SECONDS))
within "$left" "$PYTHON" "$here/overhead.py" "$memlab" "$scratch/jobs" "$scratch/recordings" $((left - 5)) || fail "overhead"

say "recordings"
for file in "$out"/*.msgpack "$out"/*.json; do
    [ -f "$file" ] || continue
    bytes=$(stat -c %s "$file")
    printf '%12s  %s\n' "$bytes" "$(basename "$file")"
    ((bytes < 2000000)) || fail "$(basename "$file") is too large for test data"
done
say "status $status"
exit $status
