import '../../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { connect } from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { GrpcServerOptions } from '../../../src/edge/grpc/grpc-server.ts';
import { shouldRateLimit } from '../../../src/edge/rls/proto.ts';
import type { WireRequest } from '../../../src/edge/wire/wire.ts';
import { type Certificates, openCertificates } from '../../../src/h2/listen/certificates.ts';
import { createAuthority, writeCertificate } from '../../helpers/certificates.ts';
import { OK } from '../../helpers/grpc-server.ts';
import { framed, message, question } from '../../helpers/h2-client.ts';
import { type H2Server, startH2 } from '../../helpers/h2-server.ts';
import { ghz, grpcio, grpcurl, h2load } from '../../helpers/tools.ts';

const method = shouldRateLimit.path.slice(1);
const request = JSON.stringify({
  domain: 'demo',
  descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }],
  hits_addend: 1,
});
const aging = { maxCount: 1_000, maxAgeMs: 50, maxAgeGraceMs: 0, keepaliveTimeMs: 10, keepaliveTimeoutMs: 60_000 };
const answer = shouldRateLimit.responseSerialize(OK);
const PYTHON_CALLS = fileURLToPath(new URL('../../tools/grpcio/calls.py', import.meta.url));

/** Runs a program to its end. @returns its output */
const run = async (program: string, args: readonly (string | number)[], env: NodeJS.ProcessEnv = {}): Promise<string> =>
  (await promisify(execFile)(program, args.map(String), { env: { ...process.env, ...env } })).stdout;

describe.each(['plain text', 'TLS'])('clients can call over %s', (security) => {
  const isSecure = security === 'TLS';
  let folder: string;
  let authority: string;
  let certificates: Certificates | undefined;
  let server: H2Server;
  /** The number of correct requests received. */
  let asked: number;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'clients-'));
    const issuer = createAuthority();
    authority = writeCertificate(folder, 'authority', issuer).cert;
    const files = writeCertificate(folder, 'server', issuer.issue('127.0.0.1', 'localhost'));
    if (isSecure) certificates = openCertificates({ ...files, clientCa: undefined }, Date.now, () => {});
  });
  afterAll(() => {
    certificates?.close();
  });

  async function start(changes: Partial<GrpcServerOptions> = {}): Promise<void> {
    asked = 0;
    const isAsExpected = (got: WireRequest): boolean => JSON.stringify(got) === JSON.stringify(question);
    server = await startH2({
      service: {
        async shouldRateLimit(got, _caller, reply) {
          if (isAsExpected(got)) asked++;
          reply({ response: OK });
        },
      },
      tls: certificates && { certificates, clientName: undefined },
      ...changes,
    });
  }
  afterEach(async () => {
    expect(server.failures).toEqual([]);
    await server.close(0);
  });

  /** Sends calls with ghz, on several connections. @returns the count of each status */
  async function load(calls: number): Promise<Readonly<Record<string, number>>> {
    const report = await run(await ghz(), [
      ...(isSecure ? ['--cacert', authority] : ['--insecure']),
      ...['--call', method, '--data', request, '--total', calls, '--concurrency', 100, '--connections', 10],
      ...['--timeout', '60s', '--format', 'json', server.target],
    ]);
    return JSON.parse(report).statusCodeDistribution;
  }

  test('ghz completes many concurrent calls (grpc-go)', async () => {
    await start();
    expect(await load(2_000)).toEqual({ OK: 2_000 });
    expect(asked).toBe(2_000);
  });

  test('grpcurl finds the method by reflection, and calls it', async () => {
    await start();
    const how = isSecure ? ['-cacert', authority] : ['-plaintext'];
    expect(JSON.parse(await run(await grpcurl(), [...how, '-d', request, server.target, method]))).toEqual({
      overallCode: 'OK',
    });
    expect((await run(await grpcurl(), [...how, server.target, 'list'])).trim().split('\n')).toEqual([
      'envoy.service.ratelimit.v3.RateLimitService',
      'grpc.health.v1.Health',
      'weir.v1.Batch',
    ]);
    expect(asked).toBe(1);
  });

  const ways = [
    ['on one connection', undefined],
    ['on connections that repeatedly reach their maximum age', aging],
  ] as const;
  test.each(isSecure ? ways.slice(0, 1) : ways)(
    'grpcio can call in each of its ways, %s (gRPC core)',
    async (_when, connections) => {
      await start(connections && { connections });
      const health = Buffer.from('\n\tratelimit');
      const SERVING = Buffer.of(8, 1);
      const args = [PYTHON_CALLS, server.target, shouldRateLimit.path, message.toString('base64')];
      const watch = ['/grpc.health.v1.Health/Watch', health.toString('base64'), isSecure ? authority : '-'];
      const printed = await run('python3', [...args, ...watch], { PYTHONPATH: await grpcio() });
      expect(JSON.parse(printed)).toEqual({
        answer: answer.toString('base64'),
        code: 'OK',
        'answered at once': 500,
        compressed: { Gzip: 'OK', Deflate: 'OK' },
        streamed: SERVING.toString('base64'),
        cancelled: 'CANCELLED',
        'unknown method': 'UNIMPLEMENTED',
        'no message': 'INTERNAL',
      });
      expect(asked).toBe(503);
    },
  );

  if (isSecure) return; // HTTP/2 is the same above TLS

  // ghz reports attempts: a call that was not sent before GOAWAY fails once, and is retried.
  test('each call of ghz is counted once while its connections keep reaching their maximum age', async () => {
    await start({ connections: aging });
    expect(Object.keys(await load(2_000))).toContain('OK');
    expect(asked).toBe(2_000);
  });

  test('grpcurl and ghz find the batch by reflection, and call it (grpc-go)', async () => {
    await start();
    const batch = `{"requests": [${request}, ${request}]}`;
    const one = { response: { overallCode: 'OK' } };
    const called = await run(await grpcurl(), ['-plaintext', '-d', batch, server.target, 'weir.v1.Batch/Decide']);
    expect(JSON.parse(called)).toEqual({ answers: [one, one] });
    expect(asked).toBe(2);
    const report = await run(await ghz(), [
      ...['--insecure', '--call', 'weir.v1.Batch/Decide', '--data', batch, '--total', 500, '--concurrency', 50],
      ...['--timeout', '60s', '--format', 'json', server.target],
    ]);
    expect(JSON.parse(report).statusCodeDistribution).toEqual({ OK: 500 });
    expect(asked).toBe(1_002);
  });

  test('h2load completes many concurrent calls (nghttp2)', async () => {
    await start();
    const body = join(folder, 'body');
    writeFileSync(body, framed(message));
    const printed = await run(await h2load(), [
      ...['--requests', 2_000, '--clients', 10, '--max-concurrent-streams', 50, '--threads', 1, '--data', body],
      ...['--header', 'content-type: application/grpc', '--header', 'te: trailers'],
      `http://${server.target}${shouldRateLimit.path}`,
    ]);
    expect(printed).toContain('2000 done, 2000 succeeded, 0 failed, 0 errored, 0 timeout');
    expect(asked).toBe(2_000);
  });

  test.each([{}, { settings: { headerTableSize: 0 } }, { settings: { initialWindowSize: 5, maxFrameSize: 20_000 } }])(
    "Node's HTTP/2 client can call with %j",
    async (options) => {
      await start();
      const session = connect(`http://${server.target}`, options);
      const head = {
        ':method': 'POST',
        ':path': shouldRateLimit.path,
        'content-type': 'application/grpc',
        te: 'trailers',
      };
      const calls = Array.from({ length: 200 }, async () => {
        const stream = session.request(head).end(framed(message));
        const chunks: Buffer[] = [];
        stream.on('data', (chunk: Buffer) => chunks.push(chunk));
        const [[trailers]] = await Promise.all([once(stream, 'trailers'), once(stream, 'end')]);
        return { status: trailers['grpc-status'], body: Buffer.concat(chunks) };
      });
      for (const reply of await Promise.all(calls)) expect(reply).toEqual({ status: '0', body: framed(answer) });
      expect(asked).toBe(200);
      session.destroy();
    },
  );
});
