#!/usr/bin/env bash
# Exports recordings for pprof and Perfetto and reads them with the schemas of these tools, from PyPI.
# Needs python3 with venv and a package registry. MEMLAB names the program (target/release/memlab without it);
# further recordings may be given as arguments.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export MEMLAB=${MEMLAB:-$root/target/release/memlab}

"${PYTHON:-python3}" -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install --quiet 'grpcio-tools>=1.60' 'perfetto>=0.50' 'protobuf>=5'
"$scratch/venv/bin/python" -m grpc_tools.protoc --proto_path="$here" --python_out="$scratch" profile.proto

traces=()
for name in torch/gpt torch/oom torch/varlen.default faults/foreign_device; do
    traces+=("$root/testdata/$name.pickle.gz")
done
traces+=("$root/testdata/torch/streams.pickle" "$root/testdata/torch/annotated.pickle" "$@")
"$scratch/venv/bin/python" "$here/check_pprof.py" "$scratch" "${traces[@]}"
"$scratch/venv/bin/python" "$here/check_perfetto.py" "$scratch" "${traces[@]}"
