#!/usr/bin/env bash
# ratelimiter 3.4.1 and async-ratelimiter 1.6.10 (npm), with ioredis 6.0.0 and Redis 7 from PATH, 2026-11-29.
# async-ratelimiter offers the same options and the same answer as ratelimiter, as a promise.
# Guess: both keep a client out while it goes on to send, since both log each request in a sorted set.
# So: ratelimiter logs refused requests, async-ratelimiter does not: it admits again while the other refuses.
set -euo pipefail
dir=$(mktemp -d)
redis=
trap 'kill $redis 2> /dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
echo '{}' > package.json
npm install --silent --no-audit --no-fund --ignore-scripts --prefix . ratelimiter@3.4.1 async-ratelimiter@1.6.10 \
  ioredis@6.0.0 > install.log
redis-server --port 0 --unixsocket "$dir/redis" --save '' > redis.log & redis=$!
cat > probe.cjs <<'EOF'
const { Redis } = require('ioredis');
const Callback = require('ratelimiter');
const Promised = require('async-ratelimiter');
const db = new Redis(`${__dirname}/redis`);
const options = { db, max: 2, duration: 1_000 };
const limiter = new Promised({ db, namespace: 'promised' });
const kinds = {
  ratelimiter: () =>
    new Promise((resolve, reject) =>
      new Callback({ ...options, id: 'client' }).get((error, limit) => (error ? reject(error) : resolve(limit))),
    ),
  'async-ratelimiter': () => limiter.get({ ...options, id: 'client' }),
};
(async () => {
  for (const [name, get] of Object.entries(kinds)) {
    let admitted = 0;
    for (let call = 0; call < 14; call++) {
      if ((await get()).remaining > 0) admitted++; // what remains includes this request
      await new Promise((resolve) => setTimeout(resolve, 260));
    }
    console.log(name, admitted > 2 ? 'admits again' : 'keeps the client out');
  }
  db.disconnect();
})();
EOF
node probe.cjs > seen
diff - seen <<'EOF'
ratelimiter keeps the client out
async-ratelimiter admits again
EOF
