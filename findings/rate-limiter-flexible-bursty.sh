#!/usr/bin/env bash
# rate-limiter-flexible 11.4.0 (npm), 2026-11-29.
# Guess: remainingPoints of a BurstyRateLimiter counts what both of its limiters still admit.
# So: it is that of the first limiter. It says 0 while three more requests are admitted, and counts no burst.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{}' > package.json
npm install --silent --no-audit --no-fund --ignore-scripts --prefix . rate-limiter-flexible@11.4.0 > install.log
cat > probe.mjs <<'EOF'
import { BurstyRateLimiter, RateLimiterMemory } from 'rate-limiter-flexible';
const limiter = new BurstyRateLimiter(
  new RateLimiterMemory({ points: 2, duration: 60 }),
  new RateLimiterMemory({ keyPrefix: 'burst', points: 3, duration: 600 }),
);
for (let call = 1; call <= 6; call++)
  await limiter.consume('client').then(
    ({ remainingPoints }) => console.log(`request ${call}: admitted, remaining ${remainingPoints}`),
    ({ remainingPoints }) => console.log(`request ${call}: refused, remaining ${remainingPoints}`),
  );
process.exit();
EOF
node probe.mjs > seen
diff - seen <<'EOF'
request 1: admitted, remaining 1
request 2: admitted, remaining 0
request 3: admitted, remaining 0
request 4: admitted, remaining 0
request 5: admitted, remaining 0
request 6: refused, remaining 0
EOF
