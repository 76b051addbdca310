#!/usr/bin/env bash
# rate-limiter-flexible 11.4.0 (npm), 2026-11-29.
# Guess: a request that one limiter of a RateLimiterUnion refuses is not charged to the others.
# So: each limiter is charged at the same time, and keeps the point: refusals by the small limit use up the large one.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{}' > package.json
npm install --silent --no-audit --no-fund --ignore-scripts --prefix . rate-limiter-flexible@11.4.0 > install.log
cat > probe.mjs <<'EOF'
import { RateLimiterMemory, RateLimiterUnion } from 'rate-limiter-flexible';
const small = new RateLimiterMemory({ keyPrefix: 'small', points: 2, duration: 60 });
const large = new RateLimiterMemory({ keyPrefix: 'large', points: 100, duration: 3600 });
const both = new RateLimiterUnion(small, large);
let admitted = 0;
for (let call = 0; call < 10; call++)
  await both.consume('client').then(
    () => admitted++,
    () => undefined,
  );
console.log(`admitted ${admitted}, charged to the large limit ${(await large.get('client')).consumedPoints}`);
process.exit();
EOF
node probe.mjs > seen
diff - seen <<'EOF'
admitted 2, charged to the large limit 10
EOF
