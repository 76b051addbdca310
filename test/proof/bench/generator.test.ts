import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer, type Server } from 'node:http';
import { createServer, type Http2Server, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Load } from '../../../proof/bench/generator/drive.ts';
import { type Generator, startGenerator } from '../../../proof/bench/generator/generator.ts';
import { shouldRateLimit } from '../../../src/edge/rls/proto.ts';
import { startWeir, type Weir } from '../../helpers/weir.ts';

const LIMIT = 30;
const RULES = `
domain: bench
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: ${LIMIT} }
`;
const PRINTABLE = Array.from({ length: 95 }, (_, at) => String.fromCharCode(32 + at)).join('');

let generator: Generator;
beforeAll(() => {
  generator = startGenerator();
});
afterAll(() => generator.stop());

const loadOf = (port: number, value: string, changes: Partial<Load> = {}): Load => ({
  port,
  connections: 4,
  pace: { kind: 'closed', callsInFlight: 5, end: { calls: 100 } },
  question: { domain: 'bench', descriptors: [{ key: 'user', value }] },
  ...changes,
});

describe('the load generator, against the service', () => {
  let folder: string;
  let weir: Weir;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'bench-'));
    const path = join(folder, 'rules.yaml');
    writeFileSync(path, RULES);
    weir = await startWeir({ BACKEND_TYPE: 'memory', RULES_PATH: path });
  });
  afterAll(async () => {
    await weir.stop();
  });

  test('counts admitted and refused calls', async () => {
    const { answers } = await generator.drive(loadOf(weir.grpcPort, 'hot'));
    expect(answers).toEqual({ OK: LIMIT, OVER_LIMIT: 100 - LIMIT, REFUSED: 0 });
  });

  test('sends each of the values equally often', async () => {
    const question = { domain: 'bench', descriptors: [{ key: 'user', value: 'one-of', values: 10 }] };
    const pace = { kind: 'closed', callsInFlight: 5, end: { calls: 10 * (LIMIT + 2) } } as const;
    const { answers } = await generator.drive(loadOf(weir.grpcPort, '', { question, pace }));
    expect(answers).toEqual({ OK: 10 * LIMIT, OVER_LIMIT: 10 * 2, REFUSED: 0 });
  });

  test('hits every descriptor of a call', async () => {
    const descriptors = [
      { key: 'user', value: 'first', values: 100 },
      { key: 'user', value: 'second' },
    ];
    const { answers } = await generator.drive(
      loadOf(weir.grpcPort, '', { question: { domain: 'bench', descriptors } }),
    );
    expect(answers).toEqual({ OK: LIMIT, OVER_LIMIT: 100 - LIMIT, REFUSED: 0 });
  });

  test('begins as many calls as the rate requires', async () => {
    const pace = { kind: 'open', callsPerSecond: 400, end: { elapsedMs: 250 } } as const;
    const { answers } = await generator.drive(loadOf(weir.grpcPort, 'at a rate', { pace }));
    expect(answers).toEqual({ OK: LIMIT, OVER_LIMIT: 100 - LIMIT, REFUSED: 0 });
  });

  test('fails with the status of a call that failed', async () => {
    const load = loadOf(weir.grpcPort, '', { question: { domain: '', descriptors: [] } });
    await expect(generator.drive(load)).rejects.toThrow(/a call must end with grpc-status 0, got \d+ .*domain/);
  });

  test('fails if the service no longer listens', async () => {
    await weir.stop();
    await expect(generator.drive(loadOf(weir.grpcPort, 'hot'))).rejects.toThrow('ECONNREFUSED');
  });
});

describe('the load generator, against a server with wrong answers', () => {
  let server: Http2Server;
  let answer: (stream: ServerHttp2Stream) => void;
  let port: number;
  beforeAll(async () => {
    server = createServer({ settings: { maxConcurrentStreams: 2 } });
    server.on('stream', (stream) => {
      stream.on('error', () => {}); // the generator resets a failed call
      stream.resume().on('end', () => answer(stream));
    });
    server.on('session', (session) => session.on('error', () => {})); // likewise
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    port = (server.address() as AddressInfo).port; // it listens on a port
  });
  afterAll(() => new Promise((resolve) => server.close(resolve)));

  /** Answers with one message with this overall code, and these trailers. */
  const answering = (overallCode: number, trailers: Record<string, string>) => (stream: ServerHttp2Stream) => {
    const message = shouldRateLimit.responseSerialize({
      overall_code: overallCode,
      statuses: [],
      response_headers_to_add: [],
    });
    const prefix = Buffer.from([0, 0, 0, 0, message.length]);
    stream.respond({ 'content-type': 'application/grpc' }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers(trailers));
    stream.write(prefix); // separate from the message: an answer may arrive in pieces
    stream.end(message);
  };

  test('counts refusals if they are allowed', async () => {
    let calls = 0;
    answer = (stream) => answering(1, { 'grpc-status': ['0', '8', '14'][calls++ % 3] ?? '' })(stream);
    const { answers, inTime } = await generator.drive({ ...loadOf(port, 'hot'), mayRefuse: true });
    expect(answers).toEqual({ OK: 34, OVER_LIMIT: 0, REFUSED: 66 });
    expect(inTime).toBeLessThanOrEqual(34);
  });

  test('resets calls whose deadline has passed, and counts them as refused', async () => {
    let calls = 0;
    answer = (stream) => {
      if (calls++ % 10 > 0) answering(1, { 'grpc-status': '0' })(stream);
    };
    const pace = { kind: 'closed', callsInFlight: 1, end: { calls: 20 } } as const;
    const load = { ...loadOf(port, 'hot', { pace, connections: 1 }), mayRefuse: true, deadlineMs: 500 };
    const { answers } = await generator.drive(load);
    expect(answers.OVER_LIMIT).toBe(0);
    expect(answers.OK + answers.REFUSED).toBe(20);
    expect(answers.REFUSED).toBeGreaterThanOrEqual(2);
  });

  test('opens no more streams than allowed, and accepts every shape of headers', async () => {
    let calls = 0;
    answer = (stream) => answering(1, { 'x-filler': `${calls++}`.repeat(400), 'grpc-status': '0' })(stream);
    const { answers } = await generator.drive(loadOf(port, 'hot'));
    expect(answers).toEqual({ OK: 100, OVER_LIMIT: 0, REFUSED: 0 });
  });

  test.each([
    ['an invalid code', answering(0, { 'grpc-status': '0' }), /overall code OK \(1\) or OVER_LIMIT \(2\), got 0/],
    ['no status', answering(1, {}), /must end with grpc-status 0, got none/],
    ['another status', answering(1, { 'grpc-status': '13' }), /must end with grpc-status 0, got 13/],
    ['a refusal', answering(1, { 'grpc-status': '8', 'grpc-message': 'too late' }), /got 8 too late/],
    ['an answer that nothing could be counted', answering(1, { 'grpc-status': '14' }), /got 14/],
    [
      'no message',
      (stream: ServerHttp2Stream) => stream.respond({ 'grpc-status': '0' }, { endStream: true }),
      /must be answered with one message that is not compressed, got 0 bytes/,
    ],
    ['a reset', (stream: ServerHttp2Stream) => stream.close(7), /a call was reset with code 7/],
    ['a GOAWAY', (stream: ServerHttp2Stream) => stream.session?.goaway(2), /GOAWAY with code 2/],
    ['a closed connection', (stream: ServerHttp2Stream) => stream.session?.destroy(), /GOAWAY|closed a connection/],
  ])('fails on %s', async (_, wrong, message) => {
    answer = wrong;
    await expect(generator.drive(loadOf(port, 'hot'))).rejects.toThrow(message);
  });

  test('reads every printable character of a message', async () => {
    answer = answering(1, { 'grpc-status': '3', 'grpc-message': `<${PRINTABLE}>` });
    await expect(generator.drive(loadOf(port, 'hot'))).rejects.toThrow(`got 3 <${PRINTABLE}>`);
  });
});

describe('the load generator over HTTP/1.1', () => {
  const users = ['admitted', 'refused', 'unlimited', 'failed'];
  const statuses: Readonly<Record<string, number>> = { refused: 429, failed: 500 };
  let server: Server;
  let port: number;
  beforeAll(async () => {
    server = createHttpServer((request, response) => {
      const user = String(request.headers['x-user']);
      if (user === 'admitted') response.setHeader('x-ratelimit-limit', '1');
      response.writeHead(statuses[user] ?? 200, { 'content-length': user.length }).flushHeaders();
      response.end(user); // separate from the headers: an answer may arrive in pieces
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    port = (server.address() as AddressInfo).port; // it listens on a port
  });
  afterAll(() => new Promise((resolve) => server.close(resolve)));

  test.each(users)('counts requests that are %s', async (user) => {
    const pace = { kind: 'closed', callsInFlight: 1, end: { calls: 20 } } as const;
    const { answers, notSent } = await generator.driveHttp({ port, connections: 4, pace, users: [user] });
    const none = { ADMITTED: 0, REFUSED: 0, UNLIMITED: 0, FAILED: 0 };
    expect({ answers, notSent }).toEqual({ answers: { ...none, [user.toUpperCase()]: 20 }, notSent: 0 });
  });

  test('sends the users in turn, and nothing on a connection that waits for an answer', async () => {
    const pace = { kind: 'open', callsPerSecond: 100_000, end: { elapsedMs: 20 } } as const;
    const { answers, notSent } = await generator.driveHttp({ port, connections: 4, pace, users });
    const sent = Object.values(answers);
    expect(Math.min(...sent)).toBeGreaterThan(0);
    expect(notSent).toBeGreaterThan(0);
    expect(sent.reduce((sum, count) => sum + count, notSent)).toBe(2_000);
  });
});
