#!/usr/bin/env bash
# express-slow-down 3.1.1 (npm) with legacyHeaders, 2026-11-29.
# Guess: X-RateLimit-Limit is the number of requests that are not delayed (delayAfter), or no such field is sent.
# So: each 200 says that the limit is 0 and nothing remains, also for requests that are not delayed.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{}' > package.json
npm install --silent --no-audit --no-fund --ignore-scripts --prefix . express-slow-down@3.1.1 express@5.3.0 > install.log
cat > probe.mjs <<'EOF'
import express from 'express';
import { slowDown } from 'express-slow-down';
const app = express();
app.use(slowDown({ windowMs: 60_000, delayAfter: 2, delayMs: () => 20, legacyHeaders: true }));
app.get('/', (_, response) => response.send('ok'));
const server = app.listen(0, '127.0.0.1');
await new Promise((resolve) => server.once('listening', resolve));
for (let call = 0; call < 3; call++) {
  const { status, headers } = await fetch(`http://127.0.0.1:${server.address().port}/`);
  console.log(status, headers.get('x-ratelimit-limit'), headers.get('x-ratelimit-remaining'));
}
server.close();
EOF
node probe.mjs > seen
diff - seen <<'EOF'
200 0 0
200 0 0
200 0 0
EOF
