#!/usr/bin/env bash
# Opens reports in headless Chromium and holds them against their report.json.
#
#   tests/browser/run.sh PROGRAM [RECORDING ...]     reports are made with PROGRAM (a built memlab)
#   REPORTS=FOLDER tests/browser/run.sh              FOLDER/NAME/{report.html,report.json,allocations.csv} are there
#
# CHROMIUM names the browser. Node's modules are installed beside this script when they are missing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

if [ -z "${REPORTS:-}" ]; then
  program=${1:?the program to make reports with, or REPORTS}
  shift
  recordings=("$@")
  if [ ${#recordings[@]} -eq 0 ]; then
    for name in gpt varlen.default oom streams big; do
      for file in "$root/testdata/torch/$name".pickle "$root/testdata/torch/$name".pickle.gz; do
        if [ -e "$file" ]; then recordings+=("$file"); fi
      done
    done
    # Driver calls: beside the allocator's events, and alone.
    recordings+=("$root"/testdata/driver/layers/{varlen,jax}.msgpack)
  fi
  REPORTS=$(mktemp -d)
  trap 'rm -rf "$REPORTS"' EXIT
  node "$here/hostile.mjs" > "$REPORTS/hostile.json"
  recordings+=("$REPORTS/hostile.json")
  for file in "${recordings[@]}"; do
    name=$(basename "$file")
    name=${name%.json}
    name=${name%.msgpack}
    folder="$REPORTS/${name%%.pickle*}"
    case $name in varlen.default.*) long=$file ;; esac
    "$program" analyze "$file" -o "$folder" --quiet > /dev/null
    # A recording of driver calls alone has no allocations of the allocator's.
    if [ "$name" != jax ]; then "$program" export "$file" -o "$folder" --format csv --table allocations --quiet; fi
  done
  # One page without room for all events: windows, levels and large allocations.
  if [ -n "${long:-}" ]; then
    cp -r "$REPORTS/varlen.default" "$REPORTS/incomplete"
    "$program" report "$long" --detail 60KiB -o "$REPORTS/incomplete/report.html" --force --quiet
  fi
fi
export REPORTS

if [ -z "${CHROMIUM:-}" ]; then
  for browser in chromium chromium-browser google-chrome; do
    if command -v "$browser" > /dev/null; then CHROMIUM=$(command -v "$browser"); break; fi
  done
fi
export CHROMIUM=${CHROMIUM:?no Chromium found: set CHROMIUM}

cd "$here"
[ -d node_modules/playwright-core ] || npm install --no-package-lock --no-audit --no-fund --silent
node --test --test-concurrency=1 views.test.mjs driver.test.mjs
