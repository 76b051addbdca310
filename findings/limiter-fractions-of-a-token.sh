#!/usr/bin/env bash
# limiter 4.1.0 (npm), 2026-11-29.
# Guess: RateLimiter with 1.5 tokens per second admits 3 requests in 2 seconds, as its token bucket holds fractions.
# So: it admits 1 a second. The bucket holds the fraction, but the limit of each interval starts anew, without it.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{}' > package.json
npm install --silent --no-audit --no-fund --ignore-scripts --prefix . limiter@4.1.0 > install.log
cat > probe.mjs <<'EOF'
import { RateLimiter } from 'limiter';
const limiter = new RateLimiter({ tokensPerInterval: 1.5, interval: 1_000 });
const untilMs = performance.now() + 5_900;
let admitted = 0;
while (performance.now() < untilMs) {
  if (limiter.tryRemoveTokens(1)) admitted++;
  await new Promise((resolve) => setTimeout(resolve, 20));
}
console.log(`admitted in six intervals: ${admitted}`);
EOF
node probe.mjs > seen
diff - seen <<'EOF'
admitted in six intervals: 6
EOF
