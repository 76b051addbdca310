#!/usr/bin/env bash
# ioredis-mock 8.13.1 and ioredis 6.0.0 (npm), with Redis 7 from PATH, 2026-11-30.
# Guess: a limiter whose commands pass against ioredis-mock keeps the same windows on Redis.
# So: EXPIRE ignores NX and GT, so that each request moves the end of the window; SET with KEEPTTL makes the counter
# last for ever; and scripts answer fractions, booleans and lists as Lua has them, not as Redis converts them.
set -euo pipefail
dir=$(mktemp -d)
redis=
trap 'kill $redis 2> /dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
echo '{}' > package.json
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps --prefix . ioredis-mock@8.13.1 \
  ioredis@6.0.0 > install.log
redis-server --port 0 --unixsocket "$dir/socket" --save '' > redis.log & redis=$!
cat > probe.mjs <<'EOF'
import Redis from 'ioredis';
import Mock from 'ioredis-mock';
const probes = {
  'EXPIRE NX': async (redis) => {
    await redis.multi().incr('nx').expire('nx', 60, 'NX').exec();
    await redis.multi().incr('nx').expire('nx', 600, 'NX').exec();
    return (await redis.ttl('nx')) > 60 ? 'the second' : 'the first';
  },
  'EXPIRE GT': async (redis) => {
    await redis.set('gt', 1, 'EX', 600);
    await redis.expire('gt', 60, 'GT');
    return (await redis.ttl('gt')) > 60 ? 'the longer' : 'the shorter';
  },
  'SET KEEPTTL': async (redis) => {
    await redis.set('kept', 5, 'EX', 60);
    await redis.set('kept', 4, 'KEEPTTL');
    return (await redis.ttl('kept')) > 0 ? 'expires' : 'never expires';
  },
  'return 3.99': (redis) => redis.eval('return 3.99', 0),
  'return {1, 0.5, true, false}': (redis) => redis.eval('return {1, 0.5, true, false}', 0),
  'return redis.call("GET", "absent")': (redis) => redis.eval('return redis.call("GET", "absent")', 0),
};
const real = new Redis({ path: 'socket' });
const mock = new Mock();
for (const [title, probe] of Object.entries(probes)) {
  console.log(`${title}: Redis ${JSON.stringify(await probe(real))}, mock ${JSON.stringify(await probe(mock))}`);
}
process.exit();
EOF
until [ -S socket ]; do sleep 0.1; done
node probe.mjs > seen
diff - seen <<'EOF'
EXPIRE NX: Redis "the first", mock "the second"
EXPIRE GT: Redis "the longer", mock "the shorter"
SET KEEPTTL: Redis "expires", mock "never expires"
return 3.99: Redis 3, mock 3.99
return {1, 0.5, true, false}: Redis [1,0,1,null], mock [1,0.5,true,false]
return redis.call("GET", "absent"): Redis null, mock false
EOF
