#!/usr/bin/env bash
# ratelimit-header-parser 0.1.0 and express-rate-limit 8.7.5 (npm), 2026-11-29. Both are of one organization.
# Guess: the parser reads all formats that the middleware can send.
# So: it reads drafts 6 and 7; for draft 8 it returns an object without a single number, and throws nothing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{}' > package.json
npm install --silent --no-audit --no-fund --ignore-scripts --prefix . ratelimit-header-parser@0.1.0 \
  express-rate-limit@8.7.5 express@5.3.0 > install.log
cat > probe.mjs <<'EOF'
import express from 'express';
import { rateLimit } from 'express-rate-limit';
import { parseRateLimit } from 'ratelimit-header-parser';

for (const standardHeaders of ['draft-6', 'draft-7', 'draft-8']) {
  const app = express();
  app.use(rateLimit({ windowMs: 60_000, limit: 10, standardHeaders, legacyHeaders: false }));
  app.get('/', (_, response) => response.send('ok'));
  const server = app.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const response = await fetch(`http://127.0.0.1:${server.address().port}/`);
  const { limit, remaining, reset } = parseRateLimit(response);
  console.log(standardHeaders, limit, remaining, Number.isNaN(Number(reset ?? NaN)) ? 'no time' : 'a time');
  server.close();
}
EOF
node probe.mjs > seen
diff - seen <<'EOF'
draft-6 10 9 a time
draft-7 10 9 a time
draft-8 NaN NaN no time
EOF
