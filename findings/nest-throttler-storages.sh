#!/usr/bin/env bash
# @nestjs/throttler 6.7.1 and @nest-lab/throttler-storage-redis 1.2.0 (npm), ioredis 6.0.0, Redis 7 from PATH, 2026-11-29.
# Guess: with 2 requests per minute and a blockDuration of 2 s, both storages treat a client alike when a block is over.
# So: in memory its count begins anew, so that the limit is in effect 2 requests per 2 s. In Redis the count goes on, and
# the first request after the block starts the next one, until the minute is over.
set -euo pipefail
dir=$(mktemp -d)
redis=
trap 'kill $redis 2> /dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
echo '{}' > package.json
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps --prefix . @nestjs/throttler@6.7.1 \
  @nest-lab/throttler-storage-redis@1.2.0 @nestjs/common@12.5.1 @nestjs/core@12.5.1 reflect-metadata@0.2.2 \
  rxjs@7.8.2 ioredis@6.0.0 > install.log 2>&1
redis-server --port 0 --unixsocket "$dir/redis" --save '' > redis.log & redis=$!
cat > probe.cjs <<'EOF'
require('reflect-metadata');
const { ThrottlerStorageRedisService } = require('@nest-lab/throttler-storage-redis');
const { ThrottlerStorageService } = require('@nestjs/throttler');
const { Redis } = require('ioredis');
const db = new Redis(`${__dirname}/redis`);
const storages = { memory: new ThrottlerStorageService(), Redis: new ThrottlerStorageRedisService(db) };
(async () => {
  for (const [name, storage] of Object.entries(storages)) {
    let [hasBeenBlocked, admittedAgain] = [false, 0];
    for (const endMs = performance.now() + 9_000; performance.now() < endMs; ) {
      const { isBlocked } = await storage.increment('client', 60_000, 2, 2_000, 'default');
      hasBeenBlocked ||= isBlocked;
      if (hasBeenBlocked && !isBlocked) admittedAgain++;
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
    console.log(`${name}: ${admittedAgain > 0 ? 'admitted again' : 'never admitted again'}`);
  }
  process.exit();
})();
EOF
node probe.cjs > seen
diff - seen <<'EOF'
memory: admitted again
Redis: never admitted again
EOF
