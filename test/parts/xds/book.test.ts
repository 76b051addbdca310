import '../../helpers/realm.ts';
import { once } from 'node:events';
import type { OutgoingHttpHeaders } from 'node:http';
import { createServer as createHttp2Server, type Http2Server } from 'node:http2';
import { type AddressInfo, connect as connectTo, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { StoreTraits } from '../../../src/engine/rules/compile/fit.ts';
import { describeLimit } from '../../../src/engine/rules/match/describe-limit.ts';
import { formatProblem } from '../../../src/engine/rules/read/problem.ts';
import type { RuleBook } from '../../../src/engine/rules/reload/book.ts';
import type { LoadedRules } from '../../../src/engine/rules/reload/load.ts';
import { openDiscoveredRules } from '../../../src/parts/xds/book.ts';
import type { ControlPlane as MatchedDescriptor } from '../../../src/parts/xds/client.ts';
import { CONFIG_TYPE_URL } from '../../../src/parts/xds/proto.ts';
import {
  type ControlPlane,
  type Descriptor,
  type Resource,
  startControlPlane,
  type Verdict,
} from '../../helpers/control-plane.ts';
import { framed } from '../../helpers/h2-client.ts';
import { freePort } from '../../helpers/process.ts';
import { eventually } from '../../helpers/until.ts';

let controlPlane: ControlPlane;
let book: RuleBook;
/** Events of the book: the number of loaded rules, or the problems; control plane up, or down with the reason. */
let events: (number | readonly string[] | string)[];

beforeEach(() => {
  events = [];
});
afterEach(() => {
  book.close();
  controlPlane.stop();
});

interface OpenOptions extends Partial<MatchedDescriptor> {
  readonly port?: number;
  readonly mergeDomains?: boolean;
  readonly store?: StoreTraits;
}

function open({ port = controlPlane.port, mergeDomains = false, store, ...changes }: OpenOptions = {}): void {
  const asked: MatchedDescriptor = {
    serverUrl: `127.0.0.1:${port}`,
    nodeId: 'node-1',
    nodeMetadata: new Map(Object.entries({ a: 'b', c: 'd' })),
    additionalHeaders: new Map(),
    tls: undefined,
    backOff: { initialMs: 100, maxMs: 200, jitter: false },
    maxMessageBytes: 4 * 1024 * 1024,
    ...changes,
  };
  book = openDiscoveredRules(asked, {
    mergeDomains,
    ...(store && { store }),
    onLoad: (loaded: LoadedRules) =>
      events.push(loaded.ok ? loaded.rules.rules.length : loaded.problems.map(formatProblem)),
    onUp: () => events.push('up'),
    onDown: (reason) => events.push(`down: ${reason}`),
  });
}

/** Opens a control plane, and a book connected to it. */
async function both(options: OpenOptions = {}): Promise<void> {
  controlPlane = await startControlPlane();
  open(options);
}

const inForce = (): readonly string[] =>
  [...(book.rules()?.rules ?? [])].map(({ path, limits }) => `${path}: ${limits.map(describeLimit).join(', ')}`);

const limitOf = (requestsPerUnit: number, more: Partial<Descriptor> = {}): Descriptor => ({
  key: 'k',
  rate_limit: { unit: 'MINUTE', requests_per_unit: requestsPerUnit },
  ...more,
});
const resource = (name: string, domain: string, ...descriptors: readonly Descriptor[]): Resource => ({
  name,
  domain,
  descriptors,
});

describe('an answer', () => {
  test('replaces all rules, then is acknowledged', async () => {
    await both();
    expect(await controlPlane.serve('v1', [resource('r1', 'd', limitOf(5))])).toEqual({ ack: 'v1' });
    expect(inForce()).toEqual(['d.k: 5 per minute']);
    const child = { key: 'c', rate_limit: { unit: 'YEAR', requests_per_unit: 2 } };
    const top = { key: 'k', value: 'x', rate_limit: { unit: 'WEEK', requests_per_unit: 0 }, descriptors: [child] };
    expect(await controlPlane.serve('v2', [resource('r2', 'e', top), resource('r3', 'f')])).toEqual({ ack: 'v2' });
    expect(inForce()).toEqual(['e.k_x: 0 per week', 'e.k_x.c: 2 per year']);
    expect([...(book.rules()?.domains.keys() ?? [])]).toEqual(['e', 'f']);
    expect(events).toEqual(['up', 1, 2]);
  });

  test('without resources means no rules', async () => {
    await both();
    expect(book.rules()).toBeUndefined();
    expect(await controlPlane.serve('v1', [])).toEqual({ ack: 'v1' });
    expect(book.rules()?.domains).toEqual(new Map());
    expect(inForce()).toEqual([]);
    expect(events).toEqual(['up', 0]);
  });

  test('can express everything that a rule file can, with the same keys', async () => {
    await both();
    const a = { key: 'a', value: 'x*', shadow_mode: true, detailed_metric: true };
    const metadata = { x: { y: [1, 'z', true, null, 1.5] } };
    const limit = { unit: 'DAY', requests_per_unit: 4_294_967_295, name: 'n', replaces: [{ name: 'm' }] };
    await controlPlane.serve('v1', [
      resource('r', 'd', { ...a, quota_mode: true, metadata, rate_limit: limit }, { key: 'w' }, limitOf(1)),
    ]);
    expect([...(book.rules()?.rules ?? [])][0]).toMatchObject({
      ...{
        path: 'd.a_x*',
        named: 'by_request',
        shadow: true,
        quota: true,
        unlimited: false,
        replaces: ['m'],
        metadata,
      },
      limits: [
        {
          limit: { algorithm: 'fixed_window', requestsPerUnit: 4_294_967_295 },
          label: { name: 'n', unit: 'DAY', unitMultiplier: 1 },
        },
      ],
    });
    expect([...(book.rules()?.rules ?? [])][1]).toMatchObject({
      ...{ path: 'd.k', named: 'by_rule', shadow: false, quota: false, replaces: [], metadata: undefined },
    });
  });

  test('may use each unit, and none with unlimited', async () => {
    await both();
    const units = ['SECOND', 'MINUTE', 'HOUR', 'DAY', 'WEEK', 'MONTH', 'YEAR'];
    const rules = units.map((unit) => ({ key: unit, rate_limit: { unit, requests_per_unit: 1 } }));
    const unlimited = { key: 'any', rate_limit: { unlimited: true } };
    expect(await controlPlane.serve('v1', [resource('r', 'd', ...rules, unlimited)])).toEqual({ ack: 'v1' });
    const found = [...(book.rules()?.rules ?? [])];
    expect(found.map(({ limits }) => limits[0]?.label.unit)).toEqual([...units, undefined]);
    expect(found.at(-1)).toMatchObject({ unlimited: true, limits: [] });
  });

  test('may have unknown fields', async () => {
    await both();
    // domain 'd', and a text in field 99
    const raw = Buffer.from([0x12, 1, 0x64, 0x9a, 0x06, 1, 0x78]).toString('base64');
    expect(await controlPlane.serve('v1', [{ raw }])).toEqual({ ack: 'v1' });
    expect([...(book.rules()?.domains.keys() ?? [])]).toEqual(['d']);
  });

  test('may split a domain into several resources if domains are merged', async () => {
    await both({ mergeDomains: true });
    const z = { key: 'z', rate_limit: { unit: 'HOUR', requests_per_unit: 3 } };
    const resources = [resource('r1', 'd', limitOf(5)), resource('r2', 'd', z)];
    expect(await controlPlane.serve('v1', resources)).toEqual({ ack: 'v1' });
    expect(inForce()).toEqual(['d.k: 5 per minute', 'd.z: 3 per hour']);
  });
});

describe('an answer is refused, and the current rules are kept,', () => {
  /** The reason for rejecting a further answer; the rejection must name the accepted version. */
  async function refusalOf(resources: readonly Resource[], typeUrl?: string): Promise<readonly string[]> {
    await both();
    await controlPlane.serve('v1', [resource('r1', 'd', limitOf(5))]);
    const verdict = await controlPlane.serve('v2', resources, typeUrl);
    expect(verdict).toEqual({ nack: expect.any(String), version: 'v1' });
    expect(inForce()).toEqual(['d.k: 5 per minute']);
    expect(events).toEqual(['up', 1, expect.any(Array)]);
    return 'nack' in verdict ? verdict.nack.split('\n') : [];
  }

  test.each<[string, readonly Descriptor[], RegExp]>([
    [
      'without a unit',
      [{ key: 'a' }, { key: 'k', rate_limit: { requests_per_unit: 1 } }],
      /^r1: invalid rate limit unit 'UNKNOWN'.* \(descriptors\[1\]\.rate_limit\.unit\)$/,
    ],
    ['with an unknown unit', [limitOf(1, { rate_limit: { unit: 99 } })], /^r1: invalid rate limit unit '99'/],
    [
      'with a child without key',
      [{ key: 'a', descriptors: [{ key: 'b' }, {}] }],
      /^r1: descriptor has empty key.* \(descriptors\[0\]\.descriptors\[1\]\.key\)$/,
    ],
    [
      'with a limit that replaces itself',
      [{ key: 'k', rate_limit: { unit: 'DAY', name: 'a', replaces: [{ name: 'a' }] } }],
      /^r1: replaces should not contain name of same descriptor.* \(descriptors\[0\]\.rate_limit\.replaces\[0\]\.name\)$/,
    ],
  ])('%s', async (_, descriptors, message) => {
    expect(await refusalOf([resource('r1', 'd', ...descriptors)])).toEqual([expect.stringMatching(message)]);
  });

  test('if it has no domain', async () => {
    expect(await refusalOf([resource('r1', '')])).toEqual([
      expect.stringMatching(/^r1: config file cannot have empty domain/),
    ]);
  });

  test('if it has a domain twice', async () => {
    expect(await refusalOf([resource('r1', 'd', limitOf(6)), resource('r2', 'd')])).toEqual([
      expect.stringMatching(/^r2: duplicate domain 'd' in config file/),
    ]);
  });

  test('if the store turns out to run no scripts, which rules need', async () => {
    let reason: string | undefined;
    const limitation = {
      reason: () => reason,
      async learn() {
        const isNew = reason === undefined;
        reason = 'NOPERM no eval';
        return isNew;
      },
    };
    const traits = { name: 'Redis', atomic: 'request', keepsEntries: true, leases: true, spend: 'each' } as const;
    await both({ store: { ...traits, needsScripts: 'SPEND=all_or_nothing', limitation } });
    expect(await controlPlane.serve('v1', [resource('r1', 'd', limitOf(5))])).toEqual({ ack: 'v1' }); // not known yet
    await eventually(() => events.length > 2);
    const problem = 'SPEND=all_or_nothing needs a script, which cannot run in Redis: NOPERM no eval';
    expect(events).toEqual(['up', 1, [expect.stringContaining(problem)]]);
    expect(await controlPlane.serve('v2', [resource('r1', 'd', limitOf(6))])).toMatchObject({
      nack: expect.anything(),
    });
    expect(inForce()).toEqual(['d.k: 5 per minute']);
  });

  test('with all problems, in the order of the resources', async () => {
    const resources = [resource('z', 'd', {}, limitOf(1, { rate_limit: {} })), resource('', ''), { raw: '/////w==' }];
    expect(await refusalOf(resources)).toEqual([
      expect.stringMatching(/^resources\[2\]: cannot be decoded/),
      expect.stringMatching(/^z: descriptor has empty key/),
      expect.stringMatching(/^z: invalid rate limit unit 'UNKNOWN'/),
      expect.stringMatching(/^resources\[1\]: config file cannot have empty domain/),
    ]);
    expect(events.at(-1)).toEqual([
      expect.stringMatching(/^resources\[2\]: cannot be decoded/),
      expect.stringMatching(/^z: descriptors\[0\]\.key: descriptor has empty key/),
      expect.stringMatching(/^z: descriptors\[1\]\.rate_limit\.unit: invalid rate limit unit 'UNKNOWN'/),
      expect.stringMatching(/^resources\[1\]: domain: config file cannot have empty domain/),
    ]);
  });

  test('with at most twenty problems, and the number of further ones', async () => {
    const refusal = await refusalOf([resource('r1', 'd', ...new Array<Descriptor>(25).fill({ value: 'x' }))]);
    expect(refusal).toHaveLength(21);
    expect(refusal.at(-1)).toBe('… and 5 more');
  });

  test('with the number of all further ones, the first thousand of which are kept in the order of the resources', async () => {
    const wrong = new Array<Descriptor>(700).fill({ value: 'x' });
    const refusal = await refusalOf([resource('z', 'd', ...wrong), resource('a', 'e', ...wrong)]);
    expect(refusal.at(-1)).toBe('… and 1380 more');
    const kept = events.at(-1);
    expect(kept).toHaveLength(1_001);
    expect(kept).toMatchObject({
      0: expect.stringMatching(/^z: descriptors\[0\]/),
      999: expect.stringMatching(/^a: descriptors\[299\]/),
      1000: 'a: and 400 more problems',
    });
  });

  test('if a resource cannot be decoded', async () => {
    expect(await refusalOf([{ raw: '/////w==' }])).toEqual([
      expect.stringMatching(
        /^resources\[0\]: cannot be decoded as ratelimit\.config\.ratelimit\.v3\.RateLimitConfig: /,
      ),
    ]);
  });

  test('if a resource has another type', async () => {
    expect(await refusalOf([{ raw: '', type_url: 'type.googleapis.com/wrong.Type' }])).toEqual([
      `resources[0]: mismatched message type: expected ${CONFIG_TYPE_URL}, got 'type.googleapis.com/wrong.Type'`,
    ]);
  });

  test('if the answer has another type, even without resources', async () => {
    expect(await refusalOf([], 'type.googleapis.com/wrong.Type')).toEqual([
      `response: mismatched message type: expected ${CONFIG_TYPE_URL}, got 'type.googleapis.com/wrong.Type'`,
    ]);
  });

  test('after which a first answer leaves the service without rules until a valid one arrives', async () => {
    await both();
    const verdict = await controlPlane.serve('v1', [resource('r1', '')]);
    expect(verdict).toEqual({ nack: expect.stringContaining('empty domain'), version: '' });
    expect(book.rules()).toBeUndefined();
    expect(await controlPlane.serve('v2', [resource('r1', 'd', limitOf(5))])).toEqual({ ack: 'v2' });
    expect(inForce()).toEqual(['d.k: 5 per minute']);
  });
});

describe('an answer of which a domain has problems', () => {
  const wrong = resource('wrong', 'b', limitOf(1), limitOf(2));

  test('is refused, but applies to the other domains, and that domain keeps its rules', async () => {
    await both();
    await controlPlane.serve('v1', [resource('r1', 'a', limitOf(5)), resource('r2', 'b', limitOf(6))]);
    const verdict = await controlPlane.serve('v2', [resource('r1', 'a', limitOf(7)), wrong, resource('r3', 'c')]);
    expect(verdict).toEqual({ nack: expect.stringMatching(/^wrong: duplicate descriptor/), version: 'v1' });
    expect(inForce()).toEqual(['a.k: 7 per minute', 'b.k: 6 per minute']);
    expect([...(book.rules()?.domains.keys() ?? [])]).toEqual(['a', 'c', 'b']);
    expect(events).toEqual(['up', 2, 2, [expect.stringMatching(/^wrong: .*duplicate/)]]);
    expect(await controlPlane.serve('v3', [resource('r2', 'b', limitOf(8))])).toEqual({ ack: 'v3' });
    expect(inForce()).toEqual(['b.k: 8 per minute']);
  });

  test('applies to the other domains after a start, too', async () => {
    await both();
    const verdict = await controlPlane.serve('v1', [wrong, resource('r1', 'a', limitOf(5))]);
    expect(verdict).toEqual({ nack: expect.stringMatching(/^wrong: /), version: '' });
    expect(inForce()).toEqual(['a.k: 5 per minute']);
  });

  test('leaves out all resources of that domain', async () => {
    await both();
    const twice = [resource('r1', 'b', limitOf(6)), resource('r2', 'b'), resource('r3', 'a', limitOf(5))];
    await controlPlane.serve('v1', twice);
    expect(inForce()).toEqual(['a.k: 5 per minute']);
  });
});

describe('a stream', () => {
  const asked = {
    node_id: 'node-1',
    node_metadata: { a: 'b', c: 'd' },
    type_url: 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig',
    version: '',
    nonce: '',
    resource_names: [],
  };

  test('begins with the node and the resource type', async () => {
    await both();
    expect(await controlPlane.first()).toEqual(asked);
  });

  test('sends the configured headers', async () => {
    await both({ additionalHeaders: new Map([['x-tenant', 'blue']]) });
    expect((await controlPlane.headers()).get('x-tenant')).toEqual(['blue']);
  });

  test('is reopened when it ends, and names the last accepted version, not a refused one', async () => {
    await both();
    await controlPlane.serve('v1', [resource('r1', 'd', limitOf(5))]);
    await controlPlane.serve('v2', [resource('r1', '')]);
    await controlPlane.drop();
    expect(await controlPlane.first()).toEqual({ ...asked, version: 'v1' });
    expect(inForce()).toEqual(['d.k: 5 per minute']);
    expect(await controlPlane.serve('v3', [resource('r1', 'd', limitOf(7))])).toEqual({ ack: 'v3' });
    expect(inForce()).toEqual(['d.k: 7 per minute']);
    expect(events).toEqual(['up', 1, [expect.any(String)], 'down: it ended the stream', 'up', 1]);
  });

  test('counts as established even if it is silent', async () => {
    await both();
    await controlPlane.serve('v1', [resource('r1', 'd', limitOf(5))]);
    await controlPlane.drop();
    await eventually(() => events.at(-1) === 'up');
    expect(events).toEqual(['up', 1, 'down: it ended the stream', 'up']);
  });

  test('ends on a message that is too large, and is reopened', async () => {
    await both({ maxMessageBytes: 1_000 });
    const large = resource('r1', 'd', limitOf(5, { value: 'x'.repeat(1_000) }));
    await controlPlane.serve('v1', [resource('r1', 'd', limitOf(5))]);
    void controlPlane.serve('v2', [large]); // never answered
    await eventually(() => controlPlane.streamCount() === 2);
    expect(events).toEqual(['up', 1, expect.stringMatching(/^down: RESOURCE_EXHAUSTED: .*1000/)]);
    expect(await controlPlane.serve('v3', [resource('r1', 'd', limitOf(7))])).toEqual({ ack: 'v3' });
  });

  test('is not reopened after close', async () => {
    await both();
    await controlPlane.serve('v1', [resource('r1', 'd', limitOf(5))]);
    await controlPlane.hangUp();
    await eventually(() => events.at(-1) === 'down: it ended the stream');
    book.close();
    await sleep(300); // longer than the longest wait
    expect(controlPlane.streamCount()).toBe(1);
  });
});

test('a control plane that is down is retried until it is up, and reported once', async () => {
  const port = await freePort();
  open({ port });
  await eventually(() => events.length > 0);
  await sleep(300); // several tries
  expect(events).toEqual([expect.stringMatching(/^down: UNAVAILABLE: .*ECONNREFUSED/)]);
  expect(book.rules()).toBeUndefined();
  controlPlane = await startControlPlane({ port });
  expect(await controlPlane.serve('v1', [resource('r1', 'd', limitOf(5))])).toEqual({ ack: 'v1' });
  expect(events).toEqual([expect.any(String), 'up', 1]);
});

test('the current rules outlive the control plane', async () => {
  await both();
  await controlPlane.serve('v1', [resource('r1', 'd', limitOf(5))]);
  controlPlane.stop();
  await eventually(() => events.length === 3);
  expect(events).toEqual(['up', 1, expect.stringMatching(/^down: /)]);
  expect(inForce()).toEqual(['d.k: 5 per minute']);
  const { port } = controlPlane;
  controlPlane = await startControlPlane({ port });
  expect(await controlPlane.first()).toMatchObject({ version: 'v1' });
});

describe('an address of a server that is not a control plane', () => {
  const respondWith =
    (head: OutgoingHttpHeaders, ...parts: readonly Uint8Array[]) =>
    () => {
      const server = createHttp2Server().on('stream', (stream) => {
        stream.on('error', () => {}).respond(head);
        for (const part of parts) stream.write(part);
      });
      return server;
    };
  const write =
    (...parts: readonly (string | Uint8Array)[]) =>
    () =>
      createServer((socket) => {
        socket.on('error', () => {});
        for (const part of parts) socket.write(part);
      });
  const grpc = { ':status': 200, 'content-type': 'application/grpc' };

  test.each<[string, () => Server | Http2Server]>([
    ['a server of HTTP/1', write('HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n')],
    ['a web page over HTTP/2', respondWith({ ':status': 200, 'content-type': 'text/html' }, Buffer.from('<html>'))],
    ['a message of gRPC that cannot be decoded', respondWith(grpc, framed(Buffer.from('/////w==', 'base64')))],
  ])('changes no rules, and is retried until it is a control plane: %s', async (_, garbage) => {
    await both();
    await controlPlane.serve('v1', [resource('r1', 'd', limitOf(5))]);
    const { port } = controlPlane;
    controlPlane.stop();
    await eventually(() => events.length === 3);
    const impostor = garbage();
    let connections = 0;
    const sockets = new Set<Socket>();
    impostor.on('connection', (socket: Socket) => {
      connections++;
      sockets.add(socket);
    });
    impostor.listen(port, '127.0.0.1');
    await eventually(() => connections >= 4);
    expect(inForce()).toEqual(['d.k: 5 per minute']);
    const closed = once(impostor, 'close');
    impostor.close();
    for (const socket of sockets) socket.destroy();
    await closed;
    controlPlane = await startControlPlane({ port });
    expect(await controlPlane.serve('v2', [resource('r1', 'd', limitOf(7))])).toEqual({ ack: 'v2' });
    expect(inForce()).toEqual(['d.k: 7 per minute']);
    const loads = events.filter((one) => typeof one !== 'string');
    expect(loads).toEqual([1, 1]); // a message that is no answer is no load
  });
});

test('the connected one of two control planes behind one address defines all rules, even if both use the same version', async () => {
  controlPlane = await startControlPlane();
  const other = await startControlPlane();
  let target = controlPlane.port;
  const address = createServer((socket) => {
    const onward = connectTo(target, '127.0.0.1').on('error', () => socket.destroy());
    socket.on('error', () => {}).on('close', () => onward.destroy());
    onward.on('close', () => socket.destroy());
    socket.pipe(onward).pipe(socket);
  });
  address.listen(0, '127.0.0.1');
  await once(address, 'listening');
  open({ port: (address.address() as AddressInfo).port }); // a TCP port
  const [ofOne, ofOther] = [
    [resource('r1', 'd', limitOf(5)), resource('r2', 'e', limitOf(5))],
    [resource('r1', 'd', limitOf(7)), resource('r3', 'f', limitOf(7))],
  ];
  expect(await controlPlane.serve('v1', ofOne)).toEqual({ ack: 'v1' });
  expect(inForce()).toEqual(['d.k: 5 per minute', 'e.k: 5 per minute']);

  target = other.port;
  await controlPlane.hangUp();
  expect(await other.first()).toMatchObject({ version: 'v1', nonce: '' });
  expect(inForce()).toEqual(['d.k: 5 per minute', 'e.k: 5 per minute']);
  expect(await other.serve('v1', ofOther)).toEqual({ ack: 'v1' });
  expect(inForce()).toEqual(['d.k: 7 per minute', 'f.k: 7 per minute']);

  target = controlPlane.port;
  await other.hangUp();
  expect(await controlPlane.serve('v1', ofOne)).toEqual({ ack: 'v1' });
  expect(inForce()).toEqual(['d.k: 5 per minute', 'e.k: 5 per minute']);
  book.close();
  other.stop();
  address.close();
});

describe('a control plane that repeats itself', () => {
  const STEP_MS = 100;
  /** A turn takes a millisecond: minutes on a busy machine. */
  const MAX_TURNS = 100_000;
  const realTimeout = setTimeout;
  let elapsedMs: number;

  beforeEach(() => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'Date'] });
    elapsedMs = 0;
  });
  afterEach(() => void jest.useRealTimers());

  /** Advances time until the condition holds; the network is real, and gets a millisecond for each step. */
  async function pass(holds: () => boolean, stepMs = STEP_MS): Promise<void> {
    for (let turns = 0; !holds(); turns++) {
      if (turns > MAX_TURNS) throw new Error(`${holds}: not within ${MAX_TURNS} turns`);
      await new Promise((resolve) => realTimeout(resolve, 1));
      jest.advanceTimersByTime(stepMs);
      elapsedMs += stepMs;
    }
  }

  test('is retried with increasing delays if it ends every stream at once', async () => {
    controlPlane = await startControlPlane({ hangsUp: true });
    open({ backOff: { initialMs: 1_000, maxMs: 4_000, jitter: false } });
    await pass(() => controlPlane.streamCount() === 6, 10); // each stream must end within its first second
    expect(elapsedMs).toBeGreaterThanOrEqual(1_000 + 2_000 + 4_000 + 4_000 + 4_000);
    expect(events).toEqual(['down: it ended the stream']);
  });

  test('is retried with the initial delay again after a stream that lasted', async () => {
    const port = await freePort();
    open({ port, backOff: { initialMs: 100, maxMs: 1_000_000, jitter: false } });
    await pass(() => elapsedMs > 200_000); // waits are above 60 s by then
    controlPlane = await startControlPlane({ port });
    await pass(() => controlPlane.streamCount() > 0);
    await controlPlane.serve('v1', []);
    jest.useRealTimers();
    await controlPlane.drop();
    expect(events).toEqual([expect.stringMatching(/^down: UNAVAILABLE/), 'up', 0, 'down: it ended the stream']);
  });

  test('receives refusals with increasing delays if it keeps sending refused resources', async () => {
    await both();
    const refusals: Verdict[] = [];
    const resend = async (): Promise<void> => {
      refusals.push(await controlPlane.serve('v1', [resource('r1', '')]));
      if (refusals.length < 6) await resend();
    };
    await controlPlane.first();
    const resent = resend();
    await pass(() => refusals.length === 6);
    await resent;
    expect(elapsedMs).toBeGreaterThanOrEqual(1_000 + 2_000 + 4_000 + 8_000 + 10_000);
  });

  test('receives an immediate answer to other resources', async () => {
    await both();
    const wrong = [resource('r1', '')];
    expect(await controlPlane.serve('v1', wrong)).toMatchObject({ version: '' });
    let wasRefusedAgain = false;
    void controlPlane.serve('v1', wrong).then(() => {
      wasRefusedAgain = true;
    });
    expect(await controlPlane.serve('v2', wrong)).toMatchObject({ version: '' });
    expect(await controlPlane.serve('v3', [])).toEqual({ ack: 'v3' });
    expect(await controlPlane.serve('v2', wrong)).toMatchObject({ version: 'v3' });
    jest.advanceTimersByTime(60_000);
    expect(await controlPlane.serve('v4', [])).toEqual({ ack: 'v4' });
    expect(wasRefusedAgain).toBe(false); // resolved problems are not reported
  });
});
