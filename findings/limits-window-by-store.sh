#!/usr/bin/env bash
# limits 5.8.0 (PyPI) with redis 8.1.0 (PyPI) and Redis 7 from PATH, 2026-11-29.
# Guess: SlidingWindowCounterRateLimiter admits the same requests whether it counts in memory or in Redis.
# So: in memory its windows are aligned with the clock, in Redis they begin with the first request of a client. After
# the same four requests late in a window of the clock, memory admits again while Redis refuses.
set -euo pipefail
dir=$(mktemp -d)
redis=
trap 'kill $redis 2> /dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet limits==5.8.0 redis==8.1.0 > install.log
redis-server --port 0 --unixsocket "$dir/redis" --save '' > redis.log & redis=$!
cat > probe.py <<'EOF'
import os, time
from limits import parse, storage, strategies

limit = parse('4/3seconds')
stores = {'memory': 'memory://', 'Redis': f'redis+unix://{os.getcwd()}/redis'}
limiters = {name: strategies.SlidingWindowCounterRateLimiter(storage.storage_from_string(uri)) for name, uri in stores.items()}
time.sleep(3 - time.time() % 3 + 2)  # one second before the clock's window of three seconds ends
for name, limiter in limiters.items():
    print(name, 'admits', sum(limiter.hit(limit, 'client') for _ in range(5)))
time.sleep(2.2)
for name, limiter in limiters.items():
    print(name, 'two seconds later:', 'admitted' if limiter.hit(limit, 'client') else 'refused')
EOF
venv/bin/python probe.py > seen
diff - seen <<'EOF'
memory admits 4
Redis admits 4
memory two seconds later: admitted
Redis two seconds later: refused
EOF
