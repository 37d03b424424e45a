#!/usr/bin/env bash
# memlab on Apache Spark, in a fresh environment: local[2] and local-cluster[2,1,1024]. Needs Java 17, python3 with
# venv and a package registry (PySpark is 320 MB). MEMLAB_BINARY is the program to test; without it the release build
# of this checkout. SPARK_VENV, an environment that has everything already, is taken as it is.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
memlab=${MEMLAB_BINARY:-${CARGO_TARGET_DIR:-$root/target}/release/memlab}
[ -x "$memlab" ] || {
    printf 'run.sh: there is no %s: build it, or set MEMLAB_BINARY\n' "$memlab" >&2
    exit 1
}
if [ -z "${JAVA_HOME:-}" ]; then
    java=$(command -v java) || {
        printf 'run.sh: there is no java on the path: install OpenJDK 17, or set JAVA_HOME\n' >&2
        exit 1
    }
    JAVA_HOME=$(dirname "$(dirname "$(readlink -f "$java")")")
    export JAVA_HOME
fi

venv=${SPARK_VENV:-$scratch/venv}
[ -d "$venv" ] || {
    "${PYTHON:-python3}" -m venv "$venv"
    "$venv/bin/pip" install --quiet 'pyspark>=3.5,<4' 'pyarrow>=14' 'pandas>=1.5' 'msgpack>=1' 'polars>=1' 'pytest>=8'
}
MEMLAB_BINARY=$(realpath "$memlab")
export MEMLAB_BINARY PYTHONPATH="$root/python" PYTHONDONTWRITEBYTECODE=1 SPARK_LOCAL_IP=127.0.0.1
cd "$scratch"
"$venv/bin/python" -m pytest -q -W ignore::DeprecationWarning -p no:cacheprovider --rootdir "$root" --basetemp "$scratch/pytest" \
    "$root/tests/spark" "$@"
