#!/usr/bin/env bash
# throttled-py 3.5.0 (PyPI), 2026-11-29.
# Guess: a request that costs more than the quota is refused, is charged nothing, and is told that it can never pass.
# So: fixed_window and sliding_window keep its cost and refuse all others of the window; the other three do not. All
# five tell it to try again after at most a second.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet throttled-py==3.5.0 > install.log
cat > probe.py <<'EOF'
from throttled import Throttled, rate_limiter, store

for using in ['fixed_window', 'sliding_window', 'token_bucket', 'leaking_bucket', 'gcra']:
    limiter = Throttled(key='client', using=using, quota=rate_limiter.per_sec(5, burst=5), store=store.MemoryStore())
    large = limiter.limit(cost=9)
    small = limiter.limit(cost=1)
    wait = 'retry within a second' if 0 < large.state.retry_after <= 1 else 'another wait'
    print(using, 'refused' if large.limited else 'admitted', wait, 'then', 'refused' if small.limited else 'admitted')
EOF
venv/bin/python probe.py > seen
diff - seen <<'EOF'
fixed_window refused retry within a second then refused
sliding_window refused retry within a second then refused
token_bucket refused retry within a second then admitted
leaking_bucket refused retry within a second then admitted
gcra refused retry within a second then admitted
EOF
