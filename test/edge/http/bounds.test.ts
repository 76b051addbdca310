import '../../helpers/realm.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { apiRoutes } from '../../../src/edge/http/api.ts';
import { CONNECTION_BYTES } from '../../../src/edge/http/connection.ts';
import { type HttpBounds, type HttpServer, plain, type Route, startHttpServer } from '../../../src/edge/http/server.ts';
import type { Caller, CallOutcome, RlsService } from '../../../src/edge/rls/service.ts';
import { CallerMemory, type MemoryAccount } from '../../../src/h2/bounds/caller-memory.ts';
import { status } from '../../../src/h2/grpc/grpc-status.ts';
import { gate } from '../../helpers/gate.ts';
import { agreeable } from '../../helpers/grpc-server.ts';
import { heapBytes } from '../../helpers/heap.ts';
import { overloadOf } from '../../helpers/overload.ts';
import { type RawClient, rawClient } from '../../helpers/raw-client.ts';
import { eventually } from '../../helpers/until.ts';

const MIB = 1024 * 1024;

/** More than the kernel buffers between two ends of a connection. */
const LARGE_PAGE = 'x'.repeat(48 * MIB);

/** Records the most that was charged at any time. */
class PeakMemory extends CallerMemory {
  peak = 0;

  override open(...connection: Parameters<CallerMemory['open']>): MemoryAccount | undefined {
    const account = super.open(...connection);
    if (!account) return undefined;
    const set = account.set.bind(account);
    account.set = (held) => {
      set(held);
      this.peak = Math.max(this.peak, this.bytes);
    };
    return account;
  }
}

let server: HttpServer;
let memory: PeakMemory;
let errors: unknown[];
let clients: RawClient[];
/** Requests for /slow. */
let asked: number;
let mayAnswer: { readonly passed: Promise<void>; open(): void };

beforeEach(() => {
  errors = [];
  clients = [];
  asked = 0;
  mayAnswer = gate();
  memory = new PeakMemory(64 * MIB);
});
afterEach(async () => {
  for (const { socket } of clients) socket.destroy();
  await server.close(0);
  expect(errors).toEqual([]);
});

const pages: Readonly<Record<string, Route['answer']>> = {
  '/good': () => plain(200, 'good'),
  '/slow': () => {
    asked++;
    return mayAnswer.passed.then(() => plain(200, 'slow'));
  },
  '/large': () => plain(200, LARGE_PAGE),
};

async function start(bounds: Partial<HttpBounds> = {}, service: RlsService = agreeable, shed = false): Promise<void> {
  const refusal = () => (shed ? { code: status.RESOURCE_EXHAUSTED, details: 'too much' } : undefined);
  const routes = new Map<string, Route>([
    ...apiRoutes(service, () => ({ ready: true, reasons: [] }), overloadOf({ refusal })),
    ...Object.entries(pages).map(([path, answer]) => [path, { help: '', answer }] as const),
  ]);
  const address = { host: '127.0.0.1', port: 0 };
  server = await startHttpServer(address, routes, (error) => errors.push(error), { memory, ...bounds });
}

async function open(): Promise<RawClient> {
  const client = await rawClient(server.port);
  clients.push(client);
  return client;
}

const getting = (path: string, headers = ''): string => `GET ${path} HTTP/1.1\r\nhost: weir\r\n${headers}\r\n`;
const posting = (body: string, headers = ''): string =>
  `POST /json HTTP/1.1\r\nhost: weir\r\ncontent-length: ${body.length}\r\n${headers}\r\n${body}`;

/** Resolves when the account has this number of bytes, even if requests are in flight. */
const charged = (bytes: number): Promise<void> =>
  eventually(
    () => memory.bytes === bytes,
    () => `${memory.bytes} bytes are charged, not ${bytes}`,
  );

describe('the memory account', () => {
  test('is charged nothing for a connection after its end, no matter how it ended', async () => {
    await start();
    const partial = posting('{"domain": "d"}').slice(0, -5);
    for (const text of [
      '',
      getting('/good'),
      getting('/good').slice(0, 9),
      partial,
      getting('/slow'),
      'nonsense\r\n\r\n',
    ]) {
      const client = await open();
      await charged(CONNECTION_BYTES);
      client.write(text);
      if (text === getting('/good')) await client.receives('good');
      if (text === partial || text === getting('/slow')) await eventually(() => memory.bytes > CONNECTION_BYTES);
      client.socket.destroy();
      await charged(0);
    }
  });

  test('is charged for a request until its response is sent', async () => {
    await start();
    const client = await open();
    client.write(getting('/slow') + getting('/slow'));
    await eventually(() => memory.bytes >= CONNECTION_BYTES + 2 * 8 * 1024);
    mayAnswer.open();
    await client.receives('slow', 2);
    await charged(CONNECTION_BYTES);
  });

  test('is charged for the header fields of a request', async () => {
    await start();
    const client = await open();
    client.write(getting('/slow', `a: ${'x'.repeat(10_000)}\r\n`));
    await eventually(() => memory.bytes >= CONNECTION_BYTES + 10_000);
    const others = await open();
    const before = memory.bytes;
    others.write(getting('/slow', 'a:b\r\n'.repeat(200)));
    await eventually(() => memory.bytes >= before + 200 * 100);
  });

  test('is charged several times the octets of a body while it arrives, and nothing after the response', async () => {
    await start();
    const client = await open();
    const body = `{"domain": "d"}${' '.repeat(300_000)}`;
    client.write(posting(body).slice(0, -1));
    await eventually(() => memory.bytes > CONNECTION_BYTES + 4 * (body.length - 1));
    client.write(' ');
    await client.receives('200 OK');
    await charged(CONNECTION_BYTES);
  });

  test('is charged no more for an oversized body than for the longest valid one', async () => {
    await start();
    const client = await open();
    client.write('POST /json HTTP/1.1\r\nhost: weir\r\ntransfer-encoding: chunked\r\n\r\n');
    for (let sent = 0; sent < 30; sent++) {
      client.write(`10000\r\n${' '.repeat(0x10000)}\r\n`);
      await sleep(1);
    }
    client.write('0\r\n\r\n');
    await client.receives('x-weir-reason: the body must have at most 1048576 bytes');
    expect(memory.peak).toBeGreaterThan(MIB);
    expect(memory.peak).toBeLessThan(5 * MIB);
    await charged(CONNECTION_BYTES);
  });

  test('is charged for a decoded request, by its descriptors and entries, until it is answered', async () => {
    const replies: ((outcome: CallOutcome) => void)[] = [];
    await start({}, { shouldRateLimit: async (_request, _caller, reply) => void replies.push(reply) });
    const client = await open();
    const descriptor = `{"entries": [${Array(64).fill('{}')}]}`;
    client.write(posting(`{"domain": "d", "descriptors": [${Array(256).fill(descriptor)}]}`));
    await eventually(() => replies.length === 1);
    expect(memory.bytes).toBeGreaterThan(256 * 64 * 100);
    replies[0]?.({ response: { overall_code: 1, statuses: [], response_headers_to_add: [] } });
    await client.receives('200 OK');
    await charged(CONNECTION_BYTES);
  });

  test('is charged for a response until its client has read it', async () => {
    await start();
    const client = await open();
    client.socket.pause();
    client.write(getting('/large'));
    await eventually(() => memory.bytes > LARGE_PAGE.length);
    client.socket.resume();
    await charged(CONNECTION_BYTES);
    await eventually(() => client.received().length > LARGE_PAGE.length); // the kernel may still buffer its end
  });

  test('is charged for responses that wait behind another one', async () => {
    await start();
    const client = await open();
    client.write(getting('/slow') + getting('/large'));
    await eventually(() => memory.bytes > LARGE_PAGE.length);
    client.socket.destroy();
    await charged(0);
  });

  test('resets the connection that holds most when it is full, and no other', async () => {
    memory = new PeakMemory(4 * MIB);
    await start();
    const [small, large] = [await open(), await open()];
    small.write(posting('{"domain": "d"}').slice(0, -1));
    large.write(posting(' '.repeat(1_000_000)).slice(0, -1));
    await eventually(() => memory.bytes > 3 * MIB);
    const another = await open();
    another.write(posting(' '.repeat(500_000)).slice(0, -1));
    await large.ended;
    small.write('}');
    await small.receives('200 OK');
    expect(another.socket.destroyed).toBe(false);
    expect(memory.bytes).toBeLessThan(4 * MIB);
  });

  test('makes no decision for a call whose connection was just reset', async () => {
    memory = new PeakMemory(MIB);
    let calls = 0;
    await start({}, { shouldRateLimit: async () => void calls++ });
    const client = await open();
    client.write(posting(`{"descriptors": [${Array(256).fill(`{"entries": [${Array(64).fill('{}')}]}`)}]}`));
    await client.ended;
    expect([calls, memory.bytes]).toEqual([0, 0]);
  });
});

describe('connections', () => {
  test('beyond the limit are closed at once while all others are in use, until one has ended', async () => {
    await start({ maxConnections: 2, isChecked: undefined }); // as on PORT: connections in use stay
    const [first, second] = [await open(), await open()];
    for (const client of [first, second]) client.write(getting('/slow'));
    await eventually(() => asked === 2);
    await (await open()).ended;
    first.socket.destroy();
    await eventually(() => memory.bytes < 2 * CONNECTION_BYTES);
    const next = await open();
    next.write(getting('/good'));
    await next.receives('good');
    expect(second.socket.destroyed).toBe(false);
  });

  test('have default bounds', async () => {
    server = await startHttpServer({ host: '127.0.0.1', port: 0 }, new Map(), (error) => errors.push(error));
    const opened = await Promise.all(Array.from({ length: 101 }, open));
    await Promise.race(opened.map(({ ended }) => ended));
    await sleep(50);
    expect(opened.filter(({ socket }) => socket.destroyed)).toHaveLength(1);
  });

  test('end when they have too many requests in flight', async () => {
    await start({ maxRequestsInFlight: 5 });
    const client = await open();
    client.write(getting('/slow').repeat(5));
    await eventually(() => memory.bytes > CONNECTION_BYTES + 5 * 8 * 1024);
    mayAnswer.open();
    await client.receives('slow', 5);
    mayAnswer = gate();
    client.write(getting('/slow').repeat(6));
    await client.ended;
    await charged(0);
  });
});

describe('a slow client', () => {
  /** A process that stalls takes any client for one that sends nothing: Node checks timeouts before it reads data. */
  const quickInput = { headTimeoutMs: 400, requestTimeoutMs: 800, checkIntervalMs: 20 };
  const quickIdle = { keepAliveTimeoutMs: 1_000 };
  const quickOutput = { outputTimeoutMs: 400 };
  const quick = { ...quickInput, keepAliveTimeoutMs: 400, ...quickOutput };

  const chunkedHead = 'POST /json HTTP/1.1\r\nhost: weir\r\ntransfer-encoding: chunked\r\n\r\n';
  test('is disconnected when it sends nothing, or a request octet by octet', async () => {
    await start(quick);
    const silent = await open();
    const requests: readonly (readonly [string, string, string])[] = [
      ['the head of a request', getting('/good').slice(0, -2), 'a'],
      ['the head of a request after another one', getting('/good') + getting('/good').slice(0, -2), 'a'],
      ['a body', posting(' '.repeat(1_000)).slice(0, -999), ' '],
      ['a body in chunks', chunkedHead, '1\r\n \r\n'],
      ['a body that is not read', posting(' '.repeat(1_000)).replace('/json', '/good').slice(0, -999), ' '],
    ];
    const left = new Set(requests.map(([what]) => what));
    for (const [what, beginning, piece] of requests) {
      const client = await open();
      client.write(beginning);
      const timer = setInterval(() => client.write(piece), 10); // never silent
      void client.ended.finally(() => {
        clearInterval(timer);
        if (!client.received().includes('400 Bad Request')) left.delete(what); // it was right as far as it went
      });
    }
    await eventually(
      () => left.size === 0,
      () => `still connected, or refused: ${[...left].join(', ')}`,
    );
    await silent.ended;
    await charged(0);
  });

  test('is disconnected when it is idle after a response', async () => {
    await start(quickIdle);
    const client = await open();
    client.write(getting('/good'));
    await client.receives('good');
    await client.ended;
    await charged(0);
  });

  test('is disconnected when it does not read its responses', async () => {
    await start(quickOutput);
    const client = await open();
    client.socket.pause();
    client.write(getting('/large'));
    await eventually(() => memory.peak > LARGE_PAGE.length);
    await charged(0);
  });

  test('is disconnected when it does not read a response that had to wait for another one', async () => {
    await start(quickOutput);
    const client = await open();
    client.socket.pause();
    client.write(getting('/slow') + getting('/large'));
    await eventually(() => memory.bytes > LARGE_PAGE.length);
    mayAnswer.open();
    await charged(0);
  });

  /** A client whose request is in flight; earlier ones were disconnected because the process has stalled. */
  async function untilAsked(): Promise<RawClient> {
    for (;;) {
      const client = await open();
      client.write(getting('/slow'));
      await eventually(() => asked > 0 || client.socket.destroyed);
      if (asked > 0) return client;
    }
  }

  test('may wait for a response for any time', async () => {
    await start(quick);
    const client = await untilAsked();
    await sleep(2_400); // longer than all timeouts together
    mayAnswer.open();
    await client.receives('slow');
  });
});

describe('a body that nothing reads', () => {
  const longBody = ' '.repeat(3 * MIB);

  test('is discarded, so that the next request is answered', async () => {
    await start();
    const client = await open();
    client.write(posting(longBody).replace('/json', '/good') + getting('/slow'));
    mayAnswer.open();
    await client.receives('slow');
    expect(client.received()).toContain('good');
    await charged(CONNECTION_BYTES);
  });

  test('is discarded if its call is shed', async () => {
    await start({}, agreeable, true);
    const client = await open();
    client.write(posting(longBody) + getting('/good'));
    await client.receives('good');
    expect(client.received()).toContain('x-weir-reason: too much');
    await charged(CONNECTION_BYTES);
  });

  test('is not charged while the response is pending', async () => {
    await start();
    const client = await open();
    client.write(posting(longBody).replace('/json', '/slow') + getting('/good'));
    const inFlight = CONNECTION_BYTES + 2 * 8 * 1024;
    await eventually(() => memory.bytes >= inFlight); // the second request was read together with the body
    expect(memory.bytes).toBeLessThan(inFlight + 10_000);
    mayAnswer.open();
    await client.receives('good');
  });

  test.each(['/good', '/slow'])('ends its connection if it is endless: %s', async (path) => {
    await start();
    const client = await open();
    let sent = 0;
    client.write(`POST ${path} HTTP/1.1\r\nhost: weir\r\ntransfer-encoding: chunked\r\n\r\n`);
    const more = (failure?: Error | null): void => {
      if (failure || client.socket.destroyed) return; // after a failure Node calls back before it destroys the socket
      sent += 0x10000;
      client.socket.write(`10000\r\n${' '.repeat(0x10000)}\r\n`, more);
    };
    more();
    await client.ended;
    expect(sent).toBeGreaterThan(4 * MIB);
    await charged(0);
  });
});

test('/json answers an endless body, and ends the connection', async () => {
  await start();
  const client = await open();
  client.write('POST /json HTTP/1.1\r\nhost: weir\r\ntransfer-encoding: chunked\r\n\r\n');
  const chunk = `100000\r\n${' '.repeat(MIB)}\r\n`;
  for (let count = 0; count < 5; count++) client.write(chunk);
  await client.ended;
  expect(client.received()).toMatch(/^HTTP\/1.1 400 Bad Request\r\n/);
  expect(client.received()).toContain('x-weir-reason: the body must have at most 1048576 bytes\r\n');
  expect(client.received()).toMatch(/^connection: close\r$/im);
  await charged(0);
});

describe('a caller that disconnects', () => {
  /** Makes calls wait, and counts how often the cancellation of each was reported. */
  function holding() {
    const gone: number[] = [];
    const service: RlsService = {
      async shouldRateLimit(_request, caller: Caller, reply) {
        const call = gone.push(0) - 1;
        caller.onGone?.(() => {
          gone[call] = (gone[call] ?? 0) + 1;
          reply({ error: { code: 1, details: 'the caller cancelled' } });
        });
      },
    };
    return { service, gone };
  }

  test('is reported once for each of its calls, in any order', async () => {
    const { service, gone } = holding();
    await start({}, service);
    const client = await open();
    client.write(posting('{"domain": "d"}').repeat(3));
    await eventually(() => gone.length === 3);
    expect(gone).toEqual([0, 0, 0]);
    client.socket.destroy();
    await eventually(() => gone.every((times) => times === 1));
    await charged(0);
  });

  test('is reported when its connection is reset for its memory', async () => {
    memory = new PeakMemory(MIB);
    const { service, gone } = holding();
    await start({}, service);
    const client = await open();
    client.write(posting('{"domain": "d"}'));
    await eventually(() => gone.length === 1);
    client.write(posting(' '.repeat(MIB)));
    await client.ended;
    await eventually(() => gone[0] === 1);
  });

  test('is reported to calls that subscribe too late', async () => {
    const asked = gate();
    let times = 0;
    await start(
      {},
      {
        async shouldRateLimit(_request, caller) {
          asked.open();
          await charged(0);
          caller.onGone?.(() => times++);
        },
      },
    );
    const client = await open();
    client.write(posting('{"domain": "d"}'));
    await asked.passed;
    client.socket.destroy();
    await eventually(() => times === 1);
  });

  test('is not reported after its response was sent', async () => {
    let times = 0;
    await start(
      {},
      {
        async shouldRateLimit(_request, caller, reply) {
          caller.onGone?.(() => times++);
          reply({ response: { overall_code: 1, statuses: [], response_headers_to_add: [] } });
        },
      },
    );
    const client = await open();
    client.write(posting('{"domain": "d"}'));
    await client.receives('200 OK');
    client.socket.destroy();
    await charged(0);
    expect(times).toBe(0);
  });
});

test('a waiting call keeps neither its body nor the decoded request alive', async () => {
  const CALLS = 20;
  const replies: ((outcome: CallOutcome) => void)[] = [];
  const requests: WeakRef<object>[] = [];
  memory = new PeakMemory(1024 * MIB);
  await start(
    {},
    {
      async shouldRateLimit(request, _caller, reply) {
        requests.push(new WeakRef(request));
        replies.push(reply);
      },
    },
  );
  const before = heapBytes();
  const client = await open();
  const entry = `{"key": "${'k'.repeat(16_000)}"}`;
  const body = posting(`{"domain": "d", "descriptors": [{"entries": [${Array(60).fill(entry)}]}]}`);
  for (let count = 0; count < CALLS; count++) client.write(body);
  await eventually(() => replies.length === CALLS);
  await new Promise(setImmediate); // a WeakRef keeps its target until the end of the turn
  expect(heapBytes() - before).toBeLessThan(5 * MIB);
  expect(requests.map((request) => request.deref())).toEqual(Array(CALLS).fill(undefined));
});
