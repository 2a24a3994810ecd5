#!/usr/bin/env bash
# Runs the clients of etcd in other languages that this machine has against a node of its
# own: clients.sh CONCORD
set -euo pipefail
concord=$(realpath "$1")
cd "$(dirname "$0")"
dir=$(mktemp -d)
"$concord" serve --data-dir "$dir/data" --listen 127.0.0.1:0 --etcd 127.0.0.1:0 >"$dir/out" 2>&1 &
node=$!
trap 'kill "$node"; wait "$node" || true; rm -rf "$dir"' EXIT
for _ in $(seq 300); do
	at=$(sed -n 's/.*etcd clients on //p' "$dir/out")
	[ -n "$at" ] && break
	sleep 0.1
done
[ -n "$at" ] || { cat "$dir/out"; exit 1; }

if /usr/bin/python3 -c 'import etcd3' 2>/dev/null; then
	echo -n "python3-etcd3: "
	/usr/bin/python3 python/smoke.py "$at"
else
	echo "python3-etcd3 is not installed: left out"
fi
if command -v npm >/dev/null; then
	cp -r npm "$dir/npm"
	(cd "$dir/npm" && npm install --no-audit --no-fund --silent >/dev/null && echo -n "npm etcd3: " && node smoke.js "$at")
else
	echo "npm is not installed: left out"
fi
