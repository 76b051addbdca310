#!/usr/bin/env bash
# rate-limit-memcached 1.0.1 (npm) with memcached 1.6.18 (Debian's, from PATH), 2026-11-29.
# Guess: a window of 1,500 ms is rounded up to whole seconds, since memcached knows no others.
# So: it is sent as 1.5, which memcached refuses: every request fails. Windows of whole seconds work.
set -euo pipefail
dir=$(mktemp -d)
memcached=
trap 'kill $memcached 2> /dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
echo '{}' > package.json
npm install --silent --no-audit --no-fund --ignore-scripts --prefix . rate-limit-memcached@1.0.1 > install.log 2>&1
MEMCACHED_PORT_FILENAME=$dir/ports memcached -u "$(id -un)" -l 127.0.0.1 -p -1 -U 0 & memcached=$!
until [ -s ports ]; do sleep 0.1; done
cat > probe.cjs <<'EOF'
const { readFileSync } = require('node:fs');
const { MemcachedStore } = require('rate-limit-memcached');
const [, port] = /^TCP INET: (\d+)$/m.exec(readFileSync('ports', 'utf8'));
(async () => {
  for (const windowMs of [2_000, 1_500]) {
    const store = new MemcachedStore({ locations: [`127.0.0.1:${port}`], prefix: `${windowMs}:` });
    store.init({ windowMs });
    const outcome = await store.increment('client').then(
      ({ totalHits }) => `counted ${totalHits}`,
      (error) => `failed: ${error.message}`,
    );
    console.log(`${windowMs} ms: ${outcome}`);
  }
  process.exit();
})();
EOF
node probe.cjs > seen
diff - seen <<'EOF'
2000 ms: counted 1
1500 ms: failed: bad command line format
EOF
