#!/usr/bin/env bash
# Writes the locks, one per role, all from one resolution. torch stays out: its build differs from machine to machine.
set -euo pipefail
cd "$(dirname "$0")"
compile() { pip-compile --quiet --generate-hashes --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
    --unsafe-package torch --strip-extras --no-header "$@"; }
compile --output-file dev.lock dev.in
for role in client server export; do  # the roles that users install
    compile --constraint dev.lock --output-file "$role.lock" "$role.in"
done
