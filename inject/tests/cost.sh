#!/usr/bin/env bash
# What a recorded call costs, in microseconds: the table of docs/driver.md, "Cost". Builds the stand-ins with cc.
# Usage: cost.sh LIBRARY [PYTHON], where LIBRARY is libmemlab_inject.so of a release build.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
library=$(realpath "$1")
python=${2:-python3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
shared=(-g -O1 -shared -fPIC -pthread -fasynchronous-unwind-tables)
cc "${shared[@]}" -Wl,-soname,libcuda.so.1 -o "$scratch/libcuda.so.1" "$here/c/cuda.c" -ldl
cc "${shared[@]}" -o "$scratch/libcupti.so" "$here/c/cupti.c" -ldl
cc -g -O1 -fno-optimize-sibling-calls -pthread -o "$scratch/program" "$here/c/program.c" "$scratch/libcuda.so.1" -ldl
export LD_LIBRARY_PATH=$scratch MEMLAB_CUPTI=$scratch/libcupti.so MEMLAB_DRIVER_OUTPUT=$scratch/out.msgpack

row() {
    printf '%-26s %8s' "$1" "$("${@:2}" | tail -1)"
    for stacks in none python native all; do
        rm -f "$scratch"/out*
        printf ' %8s' "$(CUDA_INJECTION64_PATH=$library MEMLAB_DRIVER_STACKS=$stacks "${@:2}" | tail -1)"
    done
    echo
}

printf '%-26s %8s %8s %8s %8s %8s\n' us without none python native all
for way in held released thread; do
    row "Python, $way" "$python" "$here/cost.py" "$scratch/libcuda.so.1" "$way"
done
echo "(nanoseconds:)"
row C "$scratch/program" bench 200000

# What the recorder itself takes where each call of the driver leaves nothing in the caches: compare.py needs msgpack.
echo "own time where a call touches 32 MB, the first call left out; the best of five programs"
for stacks in none python native all; do
    printf '%-26s' "$stacks"
    for _ in 1 2 3 4 5; do
        rm -f "$scratch"/out*
        STANDIN_COLD=32000000 CUDA_INJECTION64_PATH=$library MEMLAB_DRIVER_STACKS=$stacks "$python" "$here/cost.py" "$scratch/libcuda.so.1" released 1 >"$scratch/said"
        "$python" "$here/../gpu/compare.py" "$scratch/out.msgpack" | sed -n 's/.*the others \(.*\) us$/\1/p'
    done | sort -n | head -1
done
