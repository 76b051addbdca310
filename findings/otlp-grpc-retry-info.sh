#!/usr/bin/env bash
# The OTLP exporters for gRPC of three languages, 2026-11-30: go.opentelemetry.io/otel/exporters/otlp/otlptrace/
# otlptracegrpc v1.47.0 (Go), opentelemetry-exporter-otlp-proto-grpc 1.45.2 with grpcio 1.85.3 (PyPI), and
# @opentelemetry/exporter-trace-otlp-grpc 0.301.0 (npm).
# Guess: all retry RESOURCE_EXHAUSTED if the status has a RetryInfo, after its delay, and do not retry it otherwise, as
# the specification of OTLP says.
# So: only Go's does. Python's always retries, after a back-off of its own in which the delay has no part. Node's never
# retries: what a limit refuses is lost.
set -euo pipefail
dir=$(mktemp -d)
server=
trap 'kill $server 2> /dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet opentelemetry-exporter-otlp-proto-grpc==1.45.2 grpcio==1.85.3 > install.log 2>&1
echo '{}' > package.json
npm install --silent --no-audit --no-fund --ignore-scripts --prefix . \
  @opentelemetry/exporter-trace-otlp-grpc@0.301.0 > install.log
cat > server.py <<'EOF'
# Refuses the first call of each exporter, which names itself and the case in metadata, and logs the times of all.
import time
from concurrent.futures import ThreadPoolExecutor
import grpc
from google.protobuf.any_pb2 import Any
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

first = {}

def export(_, context):
    case = dict(context.invocation_metadata())['case']
    if case in first:
        waited = time.monotonic() - first[case]
        with open('retries', 'a') as file:
            print(case, 'retried after the delay' if waited > 3.9 else 'retried before it', file=file)
        return b''
    first[case] = time.monotonic()
    info = Any()
    info.Pack(RetryInfo(retry_delay={'seconds': 4}))
    details = [info] if case.endswith('with') else []
    status = Status(code=8, message='over limit', details=details).SerializeToString()
    context.set_trailing_metadata((('grpc-status-details-bin', status),))
    context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, 'over limit')

class Exports(grpc.GenericRpcHandler):
    def service(self, _):
        return grpc.unary_unary_rpc_method_handler(export)

server = grpc.server(ThreadPoolExecutor(), handlers=[Exports()])
port = server.add_insecure_port('127.0.0.1:0')
server.start()
with open('port', 'w') as file:
    file.write(str(port))
server.wait_for_termination()
EOF
cat > probe.py <<'EOF'
import sys
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider

with TracerProvider().get_tracer('probe').start_as_current_span('span') as span:
    pass
for case in ['with', 'without']:
    exporter = OTLPSpanExporter(sys.argv[1], insecure=True, headers={'case': f'python-{case}'}, timeout=20)
    print('python', case, exporter.export([span]).name)
EOF
cat > probe.mjs <<'EOF'
import { createRequire } from 'node:module';
const require = createRequire(import.meta.url);
const { OTLPTraceExporter } = require('@opentelemetry/exporter-trace-otlp-grpc');
const { Metadata } = require('@grpc/grpc-js');
for (const name of ['with', 'without']) {
  const metadata = new Metadata();
  metadata.set('case', `node-${name}`);
  const exporter = new OTLPTraceExporter({ url: `http://${process.argv[2]}`, metadata, timeoutMillis: 20_000 });
  const { code } = await new Promise((resolve) => exporter.export([], resolve));
  console.log('node', name, code === 0 ? 'SUCCESS' : 'FAILURE');
}
process.exit();
EOF
cat > go.mod <<'EOF'
module probe

go 1.25
EOF
cat > main.go <<'EOF'
package main

import (
	"context"
	"fmt"
	"os"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func main() {
	ctx := context.Background()
	for _, name := range []string{"with", "without"} {
		exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(os.Args[1]), otlptracegrpc.WithInsecure(),
			otlptracegrpc.WithHeaders(map[string]string{"case": "go-" + name}))
		if err != nil {
			panic(err)
		}
		outcome := "SUCCESS"
		if exporter.ExportSpans(ctx, tracetest.SpanStubs{{Name: "span"}}.Snapshots()) != nil {
			outcome = "FAILURE"
		}
		fmt.Println("go", name, outcome)
	}
}
EOF
go get go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc@v1.47.0 go.opentelemetry.io/otel/sdk@v1.47.0 \
  2> install.log
go mod tidy 2>> install.log
venv/bin/python server.py & server=$!
until [ -s port ]; do sleep 0.1; done
address="127.0.0.1:$(cat port)"
{
  go run . "$address"
  venv/bin/python probe.py "$address" 2> warnings.log
  node probe.mjs "$address"
  cat retries
} > seen
diff - seen <<'EOF'
go with SUCCESS
go without FAILURE
python with SUCCESS
python without SUCCESS
node with FAILURE
node without FAILURE
go-with retried after the delay
python-with retried before it
python-without retried before it
EOF
