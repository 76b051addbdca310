import { Flag, FrameType } from '../../../src/h2/http2/frames.ts';
import { encodeFields } from '../../../src/h2/http2/hpack/encode.ts';
import { callFields, frame, framed } from '../../../test/helpers/h2-client.ts';
import { range } from '../../tables/figures.ts';
import type { Attack, Attacker } from '../attack.ts';
import { post } from '../http1.ts';
import type { Http2Client } from '../http2-client.ts';
import { descriptor, entry, request } from '../messages.ts';
import { DOMAIN, defaultRules } from '../rules.ts';
import { BUDGETS } from '../verdict.ts';

const HEAD = encodeFields(callFields());

/** Sends a call without waiting for its answer. @returns false if the connection has ended */
async function call(client: Http2Client, body: Buffer, head = HEAD): Promise<boolean> {
  const id = client.takeStreams(1);
  return (await client.send(frame(FrameType.HEADERS, Flag.END_HEADERS, id, head))) && client.sendBody(id, body, true);
}

/** Sends the calls one after the other, each answered before the next. */
async function inTurn(client: Http2Client, bodies: Iterable<Buffer>): Promise<void> {
  for (const body of bodies) if (await call(client, body)) await client.untilEnded(client.begun);
}

/** Sends a call each interval, in turn, until the time is over. */
async function paced(
  attacker: Attacker,
  client: Http2Client,
  { bodies, everyMs }: { readonly bodies: readonly Buffer[]; readonly everyMs: number },
) {
  for (let at = 0; !attacker.isOver; at++) {
    const body = bodies[at % bodies.length];
    if (!body || !(await call(client, body))) return;
    await attacker.sleep(everyMs);
  }
}

/** Approximate maximum of a request. */
const DESCRIPTORS = 250;
const createBody = (descriptors: readonly Buffer[]): Buffer => framed(request(descriptors));

/** Fills a counter, then names it in all descriptors of a call. */
interface LongCounter {
  readonly name: string;
  readonly rule: string;
  /** Descriptors of the calls that fill the counter. */
  readonly fill: readonly (readonly Buffer[])[];
  readonly attack: readonly Buffer[];
}

const repeated = (entries: readonly Buffer[]) => range(DESCRIPTORS).map(() => descriptor(...entries));
const withIds = (key: string, from: number) =>
  range(DESCRIPTORS).map((at) => descriptor(entry(key, 'one'), entry('id', `${from + at}`)));
const idRule = (key: string, limit: string) => `
  - key: ${key}
    descriptors:
      - { key: id, not_counted: hold, rate_limit: { ${limit} } }`;

const FILL_CALLS = 1_000;
const longCounters: readonly LongCounter[] = [
  {
    name: 'sliding_window_log of 1,000 hits',
    rule: `
  - { key: logged, rate_limit: { algorithm: sliding_window_log, unit: hour, requests_per_unit: 1000 } }`,
    fill: range(FILL_CALLS).map(() => [descriptor(entry('logged', 'one'))]),
    attack: repeated([entry('logged', 'one')]),
  },
  {
    name: 'sliding_window_buckets of 100 parts',
    rule: `
  - { key: parts, rate_limit: { algorithm: sliding_window_buckets, buckets: 100, unit: second, requests_per_unit: 100000 } }`,
    fill: range(FILL_CALLS).map(() => [descriptor(entry('parts', 'one'))]),
    attack: repeated([entry('parts', 'one')]),
  },
  {
    name: 'in_flight with 1,000 ids',
    rule: idRule('slots', 'algorithm: in_flight, requests_per_unit: 1000, ttl: 60s'),
    fill: range(4).map((at) => withIds('slots', at * DESCRIPTORS)),
    attack: withIds('slots', 10_000),
  },
  {
    name: 'reserve with 1,000 ids',
    rule: idRule('tokens', 'unit: hour, requests_per_unit: 1000, reserve: { ttl: 60s }'),
    fill: range(4).map((at) => withIds('tokens', at * DESCRIPTORS)),
    attack: withIds('tokens', 10_000),
  },
];

const plain = range(DESCRIPTORS).map((at) => descriptor(entry('user', `plain-${at}`)));
const CALL_EVERY_MS = 50;
/** Enough to fill the counter, and for a hundred calls. */
const COUNTER_MS = 8_000;

const filledThenNamed =
  (fill: readonly (readonly Buffer[])[], named: readonly Buffer[]): Attack['prepare'] =>
  () => {
    const bodies = fill.map(createBody);
    const body = createBody(named);
    return async (attacker) => {
      const client = await attacker.http2();
      await Promise.race([inTurn(client, bodies), attacker.over]);
      await paced(attacker, client, { bodies: [body], everyMs: CALL_EVERY_MS });
    };
  };

const MATCH_EVERY_MS = 20;
const MAX_TEXT = 16_000;
const createText = (length: number): string => '/v'.repeat(length / 2);

const patternRules = (count: number): string => {
  const rules = range(count).map(
    (at) => `
  - { key: path, value: "*/v${at}/*", rate_limit: { unit: hour, requests_per_unit: 1000000000 } }`,
  );
  return `${defaultRules}${rules.join('')}\n`;
};

/** Calls with a text that almost matches each of the patterns, and calls with as much text as possible. */
function patternAttack(count: number): Attack {
  const bodiesWith = (key: string) => [
    ...range(24).map(() => createBody([descriptor(entry(key, createText(MAX_TEXT)))])),
    createBody(range(DESCRIPTORS).map(() => descriptor(entry(key, createText(MAX_TEXT))))),
  ];
  const prepareWith =
    (key: string): Attack['prepare'] =>
    () => {
      const bodies = bodiesWith(key);
      return async (attacker) => paced(attacker, await attacker.http2(), { bodies, everyMs: MATCH_EVERY_MS });
    };
  return {
    name: `${count.toLocaleString('en')} patterns with the same beginning, and texts that almost match`,
    leavesBytes: BUDGETS.counters + BUDGETS.statistics,
    rules: patternRules(count),
    prepare: prepareWith('path'),
    preparePlain: prepareWith('user'),
  };
}

const JSON_CONNECTIONS = 100;
const MANY_PATTERNS = 1_000;

/** Posts texts that almost match each of the patterns on all connections at the same time. */
const jsonPatterns = (key: string): Attack['prepare'] => {
  const entries = [{ key, value: createText(MAX_TEXT) }];
  const body = Buffer.from(JSON.stringify({ domain: DOMAIN, descriptors: [{ entries }] }));
  const call = post(body, { connection: 'keep-alive' });
  return () => async (attacker) => {
    const clients = await Promise.all(range(JSON_CONNECTIONS).map(() => attacker.tcp(attacker.ports.http)));
    while (!attacker.isOver) {
      for (const client of clients) void client.send(call);
      await attacker.sleep(JSON_CONNECTIONS * MATCH_EVERY_MS);
    }
  };
};

const CHECK_RATE_LIMIT = encodeFields(
  callFields({ ':path': '/kuadrant.service.ratelimit.v1.RateLimitService/CheckRateLimit' }),
);
/** Maximum length of a text in a message of Kuadrant's service. */
const CHECKED_CHARS = 4_000;
const CHECKS_AT_ONCE = 20;

/** Sends as many calls as fit a turn by their size, each with a text that almost matches each of the patterns. */
const checkedPatterns = (key: string): Attack['prepare'] => {
  const body = createBody([descriptor(entry(key, createText(CHECKED_CHARS)))]);
  return () => async (attacker) => {
    const client = await attacker.http2();
    for (;;) {
      for (let count = 0; count < CHECKS_AT_ONCE; count++)
        if (attacker.isOver || !(await call(client, body, CHECK_RATE_LIMIT))) return;
      await attacker.sleep(CHECKS_AT_ONCE * MATCH_EVERY_MS);
    }
  };
};

/** Requests whose cost depends on the rule that they meet. */
export const costs: readonly Attack[] = [
  ...longCounters.map(
    ({ name, rule, fill, attack }): Attack => ({
      name: `${DESCRIPTORS} descriptors for one full counter in Redis: ${name}`,
      leavesBytes: BUDGETS.counters + BUDGETS.statistics,
      redis: true,
      timeMs: COUNTER_MS,
      rules: `${defaultRules}${rule}\n`,
      prepare: filledThenNamed(fill, attack),
      preparePlain: filledThenNamed(
        fill.map((descriptors) => descriptors.map(() => descriptor(entry('user', 'fill')))),
        plain,
      ),
    }),
  ),
  ...[20, 100, 1_000].map(patternAttack),
  {
    name: `/json: texts that almost match ${MANY_PATTERNS.toLocaleString('en')} patterns, on ${JSON_CONNECTIONS} connections at once`,
    leavesBytes: BUDGETS.counters + BUDGETS.statistics,
    rules: patternRules(MANY_PATTERNS),
    prepare: jsonPatterns('path'),
    preparePlain: jsonPatterns('user'),
  },
  {
    name: `CheckRateLimit of texts that almost match ${MANY_PATTERNS.toLocaleString('en')} patterns, ${CHECKS_AT_ONCE} at once`,
    leavesBytes: BUDGETS.counters + BUDGETS.statistics,
    rules: patternRules(MANY_PATTERNS),
    prepare: checkedPatterns('path'),
    preparePlain: checkedPatterns('user'),
  },
];
