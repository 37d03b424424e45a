#!/usr/bin/env bash
# Builds the recorder's libraries and puts them into the Python package, from where the wheel takes them. Needs a Rust
# toolchain. CARGO_TARGET_DIR is used if it is set.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
cargo build --release --locked --manifest-path "$root/Cargo.toml" -p memlab-inject -p memlab-preload --lib
for library in libmemlab_inject.so libmemlab_preload.so; do
    cp "$target/release/$library" "$root/python/memlab/$library"
done
