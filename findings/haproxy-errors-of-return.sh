#!/usr/bin/env bash
# HAProxy 2.6.12 (Debian's, from PATH), 2026-11-30.
# Guess: http_err_cnt and http_err_rate of a stick table count every answer with 429 alike, whoever gave it.
# So: one by `http-request deny`, by a tarpit or by the server counts; one by `http-request return` does not, nor do
# those that `return` gives for other errors.
set -euo pipefail
dir=$(mktemp -d)
haproxy=
trap 'kill $haproxy 2> /dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
cat > haproxy.cfg <<EOF
global
  stats socket $dir/admin mode 600 level admin
defaults
  mode http
  timeout connect 5s
  timeout client 5s
  timeout server 5s
  timeout tarpit 100ms
frontend front
  bind unix@$dir/front
  http-request track-sc0 path table clients
  http-request deny deny_status 429 if { path /deny }
  http-request tarpit deny_status 429 if { path /tarpit }
  http-request return status 429 if { path /return }
  http-request return status 403 content-type text/plain string "no" if { path /return-403 }
  use_backend upstream
backend upstream
  server upstream unix@$dir/upstream
backend clients
  stick-table type string len 32 size 100 expire 1m store http_req_cnt,http_err_cnt,http_err_rate(60s)
EOF
cat > probe.mjs <<'EOF'
import http from 'node:http';
import net from 'node:net';
const upstream = http.createServer((_, response) => response.writeHead(429).end());
await new Promise((resolve) => upstream.listen('upstream', resolve));
const get = (path) =>
  new Promise((resolve, reject) => {
    const request = http.get({ socketPath: 'front', path, agent: false }, (response) =>
      response.resume().on('end', () => resolve(response.statusCode)),
    );
    request.on('error', reject);
  });
while (!(await get('/ready').then(() => true, () => false))) await new Promise((resolve) => setTimeout(resolve, 100));
const paths = ['/deny', '/tarpit', '/upstream', '/return', '/return-403'];
const codes = {};
for (const path of paths) for (let requests = 0; requests < 3; requests++) codes[path] = await get(path);
const admin = net.connect('admin').setEncoding('utf8').end('show table clients\n');
let table = '';
for await (const text of admin) table += text;
for (const path of paths) {
  const row = table.split('\n').find((line) => line.includes(`key=${path} `));
  const [, requests, errors, rate] = /http_req_cnt=(\d+) http_err_cnt=(\d+) http_err_rate\(60000\)=(\d+)/.exec(row);
  console.log(path, codes[path], `requests ${requests} errors ${errors} rate ${rate}`);
}
process.exit();
EOF
haproxy -f haproxy.cfg 2> haproxy.log & haproxy=$!
node probe.mjs > seen
diff - seen <<'EOF'
/deny 429 requests 3 errors 3 rate 3
/tarpit 429 requests 3 errors 3 rate 3
/upstream 429 requests 3 errors 3 rate 3
/return 429 requests 3 errors 0 rate 0
/return-403 403 requests 3 errors 0 rate 0
EOF
