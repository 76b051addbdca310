import '../../helpers/realm.ts';
import { loadPatterns, parseMogrifiers } from '../../../src/operate/observe/mogrifier.ts';
import { createStatsdSink, dogStatsdNames, statsdNames } from '../../../src/parts/sinks/statsd.ts';
import { heapBytes } from '../../helpers/heap.ts';
import { freePort } from '../../helpers/process.ts';
import { type StatisticsServer, startTcpStatsd, startUdpStatsd } from '../../helpers/statsd.ts';
import { eventually } from '../../helpers/until.ts';

type StatsdOptions = Parameters<typeof createStatsdSink>[0];

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function listening(server: Promise<StatisticsServer>): Promise<StatisticsServer> {
  const started = await server;
  closers.push(() => started.close());
  return started;
}

/** A sink that sends to 127.0.0.1 every 20 ms, with its up and down events in `events`. */
async function startSink(changes: Partial<StatsdOptions> & Pick<StatsdOptions, 'port'>) {
  const counters = new Map<string, number>();
  const gauges = new Map<string, number>();
  const events: string[] = [];
  const sink = await createStatsdSink({
    host: '127.0.0.1',
    protocol: 'udp',
    flushIntervalMs: 20,
    names: statsdNames(new Map()),
    counters: () => counters,
    gauges: () => gauges,
    onDown: () => events.push('down'),
    onUp: () => events.push('up'),
    ...changes,
  });
  let closed: Promise<void> | undefined;
  const close = () => {
    closed ??= sink.close();
    return closed;
  };
  closers.push(close);
  return { sink: { ...sink, close }, counters, gauges, events };
}

/** The sum of a counter's lines. */
const sumOf = (lines: readonly string[], name: string): number =>
  lines
    .filter((line) => line.startsWith(`${name}:`))
    .reduce((sum, line) => sum + Number(/:(\d+)\|c$/.exec(line)?.[1]), 0);

describe.each([
  ['udp', startUdpStatsd],
  ['tcp', startTcpStatsd],
] as const)('over %s', (protocol, start) => {
  let server: StatisticsServer;
  beforeEach(async () => {
    server = await listening(start());
  });

  test('counters are sent as increments, and only if they have grown', async () => {
    const { counters } = await startSink({ protocol, port: server.port });
    counters.set('a', 3).set('none', 0).set('b', 1);
    await server.until((lines) => lines.length >= 2);
    counters.set('a', 10);
    await server.until((lines) => lines.length >= 3);
    counters.set('b', 2);
    await server.until((lines) => lines.length >= 4);
    expect(server.lines()).toEqual(['a:3|c', 'b:1|c', 'a:7|c', 'b:1|c']);
  });

  test('gauges are sent every time', async () => {
    const { gauges } = await startSink({ protocol, port: server.port });
    gauges.set('cache', 0).set('entries', 5);
    await server.until((lines) => lines.length >= 6);
    expect(server.lines().slice(0, 4)).toEqual(['cache:0|g', 'entries:5|g', 'cache:0|g', 'entries:5|g']);
  });

  test('timers are sent in whole milliseconds without waiting for the interval, many in a packet', async () => {
    const { sink } = await startSink({ protocol, port: server.port, flushIntervalMs: 1_000_000 });
    for (let call = 0; call < 20; call++) sink.onCallFinished('ShouldRateLimit', call + 0.9);
    sink.onCallFinished('Check', 0.1);
    // over TCP, timers are only sent while connected
    if (protocol === 'tcp') {
      await eventually(() => {
        sink.onCallFinished('Check', 0.1);
        return server.packets.length > 0;
      });
      for (let call = 0; call < 20; call++) sink.onCallFinished('ShouldRateLimit', call + 0.9);
    }
    await server.until((lines) => lines.filter((line) => line.includes('ShouldRateLimit')).length >= 20);
    const lines = server.lines();
    expect(lines).toContain('ratelimit_server.Check.response_time:0|ms');
    expect(lines.filter((line) => line.includes('ShouldRateLimit'))).toEqual(
      Array.from({ length: 20 }, (_, ms) => `ratelimit_server.ShouldRateLimit.response_time:${ms}|ms`),
    );
    expect(server.packets.length).toBeLessThan(lines.length / 4);
  });

  test('the remaining increments are sent on close', async () => {
    const { sink, counters, gauges } = await startSink({ protocol, port: server.port, flushIntervalMs: 1_000_000 });
    gauges.set('g', 1);
    if (protocol === 'tcp')
      await eventually(() => {
        sink.onCallFinished('Check', 1);
        return server.packets.length > 0;
      });
    counters.set('late', 5);
    await sink.close();
    await server.until((lines) => lines.includes('late:5|c') && lines.includes('g:1|g'));
  });
});

/** Bytes in use outside of the heap, without garbage that a busy machine has not collected yet. */
function externalBytes(): number {
  heapBytes();
  return process.memoryUsage().external;
}

describe('a TCP server', () => {
  test('that goes down and up twice misses no hit, and each change is reported once', async () => {
    const port = await freePort();
    const { counters, events } = await startSink({ protocol: 'tcp', port });
    counters.set('hits', 1);
    await eventually(() => events.length > 0);
    counters.set('hits', 5);
    const first = await startTcpStatsd(port);
    await first.until((lines) => sumOf(lines, 'hits') === 5);
    expect(events).toEqual(['down', 'up']);
    await first.close();
    await eventually(() => events.length === 3);
    counters.set('hits', 12);
    const second = await listening(startTcpStatsd(port));
    await second.until((lines) => sumOf(lines, 'hits') === 7);
    expect(events).toEqual(['down', 'up', 'down', 'up']);
  });

  test('that reads nothing gets a bounded amount, and does not delay close', async () => {
    const server = await listening(startTcpStatsd(0, { reads: false }));
    const { sink, counters } = await startSink({ protocol: 'tcp', port: server.port, flushIntervalMs: 5 });
    const before = externalBytes();
    let asked = 0;
    const long = 'x'.repeat(900);
    const grow = setInterval(() => {
      asked++;
      for (let at = 0; at < 200; at++) counters.set(`${long}${at}`, asked);
      for (let at = 0; at < 200; at++) sink.onCallFinished(long, 1);
    }, 1);
    try {
      await eventually(() => asked > 300); // about 100 MB of lines
    } finally {
      clearInterval(grow);
    }
    expect(externalBytes() - before).toBeLessThan(40_000_000);
    await sink.close();
  });

  test('that is never up does not delay close', async () => {
    const { sink, counters } = await startSink({ protocol: 'tcp', port: await freePort() });
    counters.set('a', 1);
    await sink.close();
  });
});

test.each(['nowhere.invalid', '255.255.255.255'])('failing to send to %s is reported once', async (host) => {
  let flushes = 0;
  const counters = () => new Map([['a', ++flushes]]);
  const { events } = await startSink({ host, port: 8125, counters });
  await eventually(() => events.length > 0);
  const before = flushes;
  await eventually(() => flushes > before + 3);
  expect(events).toEqual(['down']);
});

test('names keep non-ASCII characters, and cannot break a line', async () => {
  const server = await listening(startUdpStatsd());
  const { counters } = await startSink({ port: server.port });
  counters.set('a.é z/雪', 1).set('b\nc:1|g', 1);
  await server.until((lines) => lines.length >= 2);
  expect(server.lines()).toEqual(['a.é z/雪:1|c', 'b_c_1_g:1|c']);
});

test('packets fit the usual MTU, for any number of counters', async () => {
  const server = await listening(startUdpStatsd());
  const { counters } = await startSink({ port: server.port });
  for (let at = 0; at < 500; at++) counters.set(`ratelimit.service.rate_limit.domain.rule_${at}.total_hits`, at + 1);
  await server.until((lines) => lines.length >= 500);
  expect(sumOf(server.lines(), 'ratelimit.service.rate_limit.domain.rule_499.total_hits')).toBe(500);
  for (const packet of server.packets) expect(packet.length).toBeLessThanOrEqual(1434);
});

test('a host is resolved by name', async () => {
  const server = await listening(startUdpStatsd());
  const { counters } = await startSink({ host: 'localhost', port: server.port });
  counters.set('a', 1);
  await server.until((lines) => lines.includes('a:1|c'));
});

test('names have nothing that a daemon takes for the beginning of tags', () => {
  const full = 'ratelimit.service.rate_limit.shop.path_/cart,#1;[a].total_hits';
  const name = 'ratelimit.service.rate_limit.shop.path_/cart__1__a_.total_hits';
  expect(statsdNames(new Map())(full)).toEqual({ name, tags: new Map() });
  expect(dogStatsdNames(new Map(), [])(full)).toEqual({ name, tags: new Map() });
});

describe('tags', () => {
  const extraTags = new Map([
    ['foo', 'bar'],
    ['a', 'b.c:d|e'],
  ]);

  test('are appended to the name for StatsD, sorted', async () => {
    const server = await listening(startUdpStatsd());
    const { counters, sink } = await startSink({ port: server.port, names: statsdNames(extraTags) });
    counters.set('ratelimit.service.rate_limit.d.k2.total_hits', 1);
    sink.onCallFinished('Check', 2);
    await server.until((lines) => lines.length >= 2);
    expect([...server.lines()].sort()).toEqual([
      'ratelimit.service.rate_limit.d.k2.total_hits.__a=b_c_d_e.__foo=bar:1|c',
      'ratelimit_server.Check.response_time.__a=b_c_d_e.__foo=bar:2|ms',
    ]);
  });

  test('are sorted tags for DogStatsD, with those of mogrifiers', async () => {
    const server = await listening(startUdpStatsd());
    const variables = {
      DOG_STATSD_MOGRIFIER_ONE_PATTERN: String.raw`^ratelimit\.(.*)\.total_hits$`,
      DOG_STATSD_MOGRIFIER_ONE_NAME: 'hits',
      DOG_STATSD_MOGRIFIER_ONE_TAGS: 'rule:$1,foo:mine',
    };
    const parsed = parseMogrifiers(['ONE'], variables, await loadPatterns());
    if (!parsed.ok) throw new Error(parsed.problems.join('\n'));
    const names = dogStatsdNames(extraTags, parsed.mogrifiers);
    const { counters, gauges } = await startSink({ port: server.port, names });
    counters.set('ratelimit.a.b.total_hits', 1).set('ratelimit.a.over_limit', 2);
    gauges.set('g', 3);
    await server.until((lines) => lines.length >= 3);
    expect(server.lines().slice(0, 3)).toEqual([
      'hits:1|c|#a:b_c_d_e,foo:mine,rule:a.b',
      'ratelimit.a.over_limit:2|c|#a:b_c_d_e,foo:bar',
      'g:3|g|#a:b_c_d_e,foo:bar',
    ]);
  });
});

test('environment variables of the client library are ignored', async () => {
  const kept = { ...process.env };
  Object.assign(process.env, { DD_ENV: 'prod', DD_TAGS: 'x:y', DD_ENTITY_ID: 'e', DD_AGENT_HOST: '203.0.113.1' });
  try {
    const server = await listening(startUdpStatsd());
    const { counters } = await startSink({ port: server.port });
    counters.set('a', 1);
    await server.until((lines) => lines.length > 0);
    expect(server.lines()).toEqual(['a:1|c']);
  } finally {
    process.env = kept;
  }
});
