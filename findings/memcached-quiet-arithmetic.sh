#!/usr/bin/env bash
# memcached 1.6.18 (Debian's, from PATH), 2026-11-29.
# Guess: with the flag q, `ma` is silent unless it fails, also for a counter that does not exist.
# So: a hit is silent, even if its value was asked for by v; a miss is answered NF, and a miss that creates the counter
# by N is answered HD. The number of replies to a pipeline depends on which counters existed.
set -euo pipefail
dir=$(mktemp -d)
memcached=
trap 'kill $memcached 2> /dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
memcached -u "$(id -un)" -s "$dir/memcached" & memcached=$!
cat > probe.py <<'EOF'
import socket, time
for _ in range(50):
    try:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect('memcached')
        break
    except OSError:
        time.sleep(0.1)
lines = connection.makefile('rb')
for command in ['ma absent q', 'ma new q N60 J1', 'ma new q N60 J1', 'ma new q v', 'ma new v']:
    connection.sendall(f'{command}\r\nmn\r\n'.encode())  # mn is answered MN, after all before it
    replies = []
    while (line := lines.readline().decode().strip()) != 'MN':
        replies.append(line)
    print(f'{command}:', ', '.join(replies) or 'silent')
EOF
python3 probe.py > seen
diff - seen <<'EOF'
ma absent q: NF
ma new q N60 J1: HD
ma new q N60 J1: silent
ma new q v: silent
ma new v: VA 1, 4
EOF
