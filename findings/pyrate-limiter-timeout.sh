#!/usr/bin/env bash
# pyrate-limiter 4.5.1 (PyPI), 2026-11-29.
# Guess: try_acquire with a timeout shorter than the wait returns False at once: the bucket knows when it has room.
# So: it waits for the whole timeout first, and returns False after it. Each refused request occupies its thread.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet pyrate-limiter==4.5.1 > install.log
cat > probe.py <<'EOF'
import time
from pyrate_limiter import Limiter, Rate

limiter = Limiter(Rate(1, 60_000))
print('first:', limiter.try_acquire('client'))
began = time.monotonic()
admitted = limiter.try_acquire('client', timeout=2)
print('second, with a timeout of 2 s and 60 s to wait:', admitted)
print('at once' if time.monotonic() - began < 1 else 'after the timeout')
EOF
venv/bin/python probe.py > seen
diff - seen <<'EOF'
first: True
second, with a timeout of 2 s and 60 s to wait: False
after the timeout
EOF
