#!/usr/bin/env bash
# The recorder on a machine with a GPU: a CUDA C++ program whose allocations are known, and PyTorch if it is there.
# Usage: check.sh MEMLAB FOLDER, where MEMLAB is the program and FOLDER holds libmemlab_inject.so and libmemlab_preload.so.
# Needs CUDA's headers with nvcc or g++, python3 with msgpack. Prints comparisons; exit code 1 if one fails.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
memlab=$(realpath "$1")
export MEMLAB_INJECT=$(realpath "$2")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
source=$here/../../testdata/driver/leaks.cu
status=0
cd "$scratch"

say() { printf '\n== %s\n' "$*"; }

say "what the system allows"
uname -sr
python3 - <<'PYTHON'
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
value, found = ctypes.c_uint64(7), ctypes.c_uint64()
here, there = (Piece(ctypes.addressof(x), 8) for x in (found, value))
count = libc.process_vm_readv(os.getpid(), ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
print("process_vm_readv:", count, os.strerror(ctypes.get_errno()) if count < 0 else found.value)
ends = os.pipe()
count = libc.write(ends[1], ctypes.c_void_p(ctypes.addressof(value)), 8)
wrong = libc.write(ends[1], ctypes.c_void_p(16), 8)
print("pipe:", count, "from a wrong address:", wrong, os.strerror(ctypes.get_errno()))
PYTHON

say "build"
cuda=${CUDA_HOME:-/usr/local/cuda}
# The runtime from a Python wheel where there is no toolkit.
wheel=$(python3 -c 'import nvidia, os
for path in nvidia.__path__:
    for name in ("cu13", "cuda_runtime"):
        if os.path.isdir(os.path.join(path, name, "include")): print(os.path.join(path, name)); raise SystemExit' 2>/dev/null)
driver=$(ldconfig -p | awk '/libcuda.so.1/ {print $NF; exit}')
driver=${driver:-$(find /usr/local/nvidia /usr/lib /usr/lib64 -name libcuda.so.1 2>/dev/null | head -1)}
if command -v nvcc >/dev/null || [ -x "$cuda/bin/nvcc" ]; then
    PATH=$PATH:$cuda/bin
    nvcc -g -O0 -cudart shared -o leaks "$source" -Xlinker "$driver" || exit 2
    folder=$(dirname "$(dirname "$(realpath "$(command -v nvcc)")")")
    export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:$folder/lib64:$folder/lib${wheel:+:$wheel/lib}
else
    [ -d "$cuda/include" ] && root=$cuda || root=$wheel
    runtime=$(find "$root/" -name 'libcudart.so*' | head -1)
    g++ -x c++ -g -O0 -I"$root/include" -o leaks "$source" -x none "$runtime" "$driver" \
        -Wl,-rpath,"$(dirname "$runtime")" -pthread || exit 2
fi

for hook in cupti preload; do
    say "leaks.cu, by $hook"
    "$memlab" record --hook $hook -o $hook.msgpack -- ./leaks >expected.txt || status=1
    if [ $hook = cupti ]; then
        python3 "$here/compare.py" $hook.msgpack expected.txt || status=1
    else
        # Functions by name: contexts and arrays are not seen, cuMem* of the program itself is.
        grep -v '^array_' expected.txt >by_name.txt
        python3 "$here/compare.py" $hook.msgpack by_name.txt || status=1
    fi
done

if python3 -c 'import torch; raise SystemExit(not torch.cuda.is_available())' 2>/dev/null; then
    cat >job.py <<'PYTHON'
import time, torch
def grow():
    return [torch.empty(n << 20, dtype=torch.uint8, device="cuda") for n in (1, 30, 300)]
kept = grow()
a = torch.randn(512, 512, device="cuda")
for _ in range(3):
    a = a @ a / a.norm()
torch.nn.functional.conv2d(torch.randn(8, 3, 64, 64, device="cuda"), torch.randn(8, 3, 3, 3, device="cuda"))
torch.cuda.synchronize()
free, total = torch.cuda.mem_get_info()
print("reserved", torch.cuda.memory_reserved(), "device_used", total - free)
start = time.perf_counter()
for _ in range(200):
    b = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    del b
    torch.cuda.empty_cache()
print("us a segment (taken and given back)", (time.perf_counter() - start) / 200 * 1e6)
PYTHON
    say "PyTorch without the recorder"
    python3 job.py || status=1
    say "PyTorch under memlab record"
    "$memlab" record --hook cupti -o torch.msgpack -- python3 job.py || status=1
    # In a file, for grep ends with its first find and would break the pipe.
    python3 "$here/compare.py" torch.msgpack >torch.txt || status=1
    cat torch.txt
    nvidia-smi --query-gpu=memory.used,memory.total --format=csv,noheader || true
    grep -q 'with Python [1-9]' torch.txt || { echo "no Python stack"; status=1; }
    grep -q '^readings of' torch.txt || { echo "no readings"; status=1; }
    say "PyTorch with expandable segments"
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "$memlab" record --hook cupti -o expandable.msgpack -- python3 job.py || status=1
    python3 "$here/compare.py" expandable.msgpack || status=1
fi
say "status $status"
exit $status
