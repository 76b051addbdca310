import type { Redis as Connection } from 'ioredis';
import { rateNames } from '../../../src/engine/algorithms/index.ts';
import type { Step } from '../../../src/engine/algorithms/limit.ts';
import { packNumbers } from '../../../src/engine/backends/packed-state.ts';
import { algorithmFor, type Limit } from '../../../src/engine/holds/limits.ts';
import { NODE_NUMBERS } from '../../../src/engine/holds/nodes.ts';
import { compiled } from '../../../src/engine/lua/compiled.ts';
import { compiledScripts } from '../../../src/parts/redis/compiled-scripts.ts';
import { openReady } from '../../helpers/connection.ts';
import {
  adaptiveOf,
  allocationOf,
  calendarWindowOf,
  fixedWindowOf,
  inFlightOf,
  leakyBucketOf,
  penaltyOf,
  reservationOf,
  siteShareOf,
  slidingWindowBucketsOf,
  slidingWindowCounterOf,
  slidingWindowLogOf,
  tokenBucketOf,
} from '../../helpers/limits.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { fairShareOf, sharedSlotsOf } from '../../helpers/shares.ts';
import { type Drawn, digestSteps, drawLoad, drawSteps, runSteps } from '../../helpers/steps.ts';

const STEPS = 2_000;
const path = [
  { key: 'a', reserve: 3, weight: 2, ceiling: 8 },
  { key: 'b', reserve: 1, weight: 1, ceiling: 0 },
];

/** Limits, and the digests of what steps answered and stored; those of rates and sites are of the hand-written ones. */
const recorded: readonly (readonly [name: string, limit: Limit, digest: string])[] = [
  ['a log', slidingWindowLogOf(20, 60_000), '2ba60c1462b9a4bf'],
  ['a log of refusals', slidingWindowLogOf(20, 60_000, { countDenied: true, soft: 5 }), '249ab820eff2db94'],
  ['a counter', slidingWindowCounterOf(20, 60_000), '90ef2bfa7958790d'],
  [
    'a counter that rounds up',
    slidingWindowCounterOf(20, 60_000, { rounding: 'up', phaseMs: 7_000 }),
    'a05c3b2765931731',
  ],
  ['parts', slidingWindowBucketsOf(20, 60_000, { buckets: 6 }), '50e3c6a6522ea2b7'],
  ['parts with an anchor', slidingWindowBucketsOf(200, 60_000, { buckets: 60, phaseMs: 7_500 }), '15d1e23f8938aabf'],
  ['a token bucket', tokenBucketOf(20, 60_000, { burst: 30 }), '1439cdbac365cd3c'],
  [
    'a bucket refilled by interval',
    tokenBucketOf(20, 60_000, { refill: 'interval', phaseMs: 7_000 }),
    'cf81bf1133101239',
  ],
  ['a leaky bucket', leakyBucketOf(20, 60_000, { burst: 5, maxDelayMs: 9_000 }), 'feae1a2b923438b4'],
  ['an allocation', allocationOf(20), '55ff464eff4d72e9'],
  ['requests in flight', inFlightOf(10, 60_000), 'c1642a9228322cce'],
  ['a fixed window', fixedWindowOf(20, 60_000, { soft: 5 }), 'c5d12565671e831d'],
  ['a window from its first hit', fixedWindowOf(20, 60_000, { alignment: 'first_hit' }), '483b2485673a4759'],
  ['a window with an anchor', fixedWindowOf(20, 60_000, { phaseMs: 7_000 }), '94101c11c4a4ca0e'],
  ['a calendar', calendarWindowOf(20, 'HOUR', 'Europe/Berlin'), '4aa6a1feea4c1389'],
  ['reservations', reservationOf(fixedWindowOf(20, 60_000), { ttlMs: 9_000 }), 'b7a8da64e2205b09'],
  [
    'reservations that lapse into a log',
    reservationOf(slidingWindowLogOf(20, 60_000), { ttlMs: 9_000, onLapse: 'charge', onOverrun: 'clip' }),
    '7db29116b44b0eb9',
  ],
  [
    'reservations that lapse into a window',
    reservationOf(fixedWindowOf(20, 60_000), { ttlMs: 9_000, onLapse: 'charge' }),
    '6ae00eb27a1f8662',
  ],
  [
    'reservations in a bucket',
    reservationOf(tokenBucketOf(20, 60_000), { ttlMs: 90_000, onLapse: 'charge' }),
    '9510e4b82cea7d5e',
  ],
  ['adaptive slots', adaptiveOf(20, 60_000), '89e829ddd3b02b70'],
  ['adaptive slots that children share', adaptiveOf(20, 60_000, { path }), 'cee46f976edf8c62'],
  ['a shared rate', fairShareOf(20, { path, reserved: 3 }), 'b50abca2b9af93e5'],
  ['a site of a window', siteShareOf(60, 60_000, { sites: 3, maxErrorPercent: 10 }), '3b28d3e67522c33b'],
  [
    'a site of a bucket',
    siteShareOf(60, 1_000, { of: 'token_bucket', sites: 3, site: 1, burst: 40 }),
    'de6b63ef2ffde00a',
  ],
  ['shared slots', sharedSlotsOf(10, 60_000, { path }), '2b163173f0a4f5a0'],
  ['a penalty of a window', penaltyOf(fixedWindowOf(20, 60_000)), 'f92f040e2d9c6d43'],
  [
    'a growing penalty of a log',
    penaltyOf(slidingWindowLogOf(20, 60_000), { growth: 3, longestMs: 600_000, forgivenMs: 300_000 }),
    '60060e5e90f1872f',
  ],
  ['a prolonged penalty of a bucket', penaltyOf(tokenBucketOf(20, 60_000), { isProlonged: true }), '5c04b2a3c78630fd'],
];

/** The same for requests in flight that change an estimate. */
const loads: readonly (readonly [name: string, limit: Limit, digest: string])[] = [
  ['by hold times', adaptiveOf(100, 5_000, { adaptMs: 200 }), 'c2e1ecce9fcfdefa'],
  ['by failures', adaptiveOf(100, 5_000, { adaptMs: 200, target: 'aimd' }), 'a24fecca0a14c9c8'],
];

/** Runs steps in Redis, as the dispatcher does, one after another from an empty counter. */
const LOOP = `
local input, at, stored, output = unpackNumbers(ARGV[1]), 1, false, {}
local function read()
  local numbers = unpackState(stored, 0)
  if not numbers or node_numbers == 0 then
    return numbers
  end
  local nodes = {}
  for first = 1, #numbers, node_numbers do
    nodes[#nodes + 1] = { unpack(numbers, first, first + node_numbers - 1) }
  end
  return nodes
end
while at <= #input do
  local now_ms, hits, charge, charged_at_ms, length = unpack(input, at, at + 4)
  local limit = { unpack(input, at + 5, at + 4 + length) }
  at = at + 5 + length
  local accepted, state, ttl_ms, report
  if charge == 3 then
    accepted, state, ttl_ms, report = refund(limit, read(), now_ms, hits, charged_at_ms)
  else
    local how = charge == 2 and 'regardless' or charge == 1
    accepted, state, ttl_ms, report = step(limit, read(), now_ms, hits, how)
  end
  local packed = packNumbers(node_numbers == 0 and state or { before = state })
  if charge ~= 0 then
    stored = ttl_ms > 0 and packed
  end
  local values = report and packNumbers(report) or packed
  output[#output + 1] = struct.pack('<dddd', accepted and 1 or 0, ttl_ms, #packed / 8, #values / 8)
  output[#output + 1] = packed
  output[#output + 1] = values
end
return table.concat(output)
`;

let server: Redis;
let connection: Connection;
beforeAll(async () => {
  server = await startRedis();
  connection = await openReady(server);
});
afterAll(async () => {
  connection.disconnect();
  await server.stop();
});

async function runInRedis(limit: Limit, steps: readonly Drawn[]): Promise<readonly Step[]> {
  const { script: own, includes = [], scriptArgs, state } = algorithmFor(limit);
  const inner = 'inner' in limit ? limit.inner : undefined;
  const before = inner ? [algorithmFor(inner).script] : includes;
  const nodes = `local node_numbers = ${state.hasNodes ? NODE_NUMBERS : 0}`;
  const step = `local step, refund = ${own.name}, ${own.name}_refund`;
  const rates = before.map(({ name }) => `{ step = ${name}, refund = ${name}_refund }`);
  const table = inner ? `local algorithms = { [${rateNames.indexOf(inner.algorithm) + 1}] = ${rates[0]} }` : '';
  const luas = before.map(({ lua }) => lua);
  const text = [compiledScripts.lone, ...luas, table, own.lua, step, nodes, LOOP].join('\n');
  const input = steps.flatMap(({ nowMs, hits, charge, chargedAtMs = 0, claim }, at) => {
    const numbers = scriptArgs(limit, nowMs, claim);
    const how = steps[at]?.chargedAtMs === undefined ? [false, true, 'regardless'].indexOf(charge) : 3;
    return [nowMs, hits, how, chargedAtMs, numbers.length, ...numbers];
  });
  const reply = (await connection.callBuffer('EVAL', text, 0, packNumbers(input))) as Buffer; // the script's
  let at = 0;
  const read = (count: number): readonly number[] => Array.from({ length: count }, () => reply.readDoubleLE(8 * at++)); // of doubles
  return steps.map(() => {
    const [accepted = 0, ttlMs = 0, length = 0, values = 0] = read(4);
    return { accepted: accepted === 1, ttlMs, state: read(length), report: read(values) };
  });
}

describe('what was recorded, beginning with an empty counter', () => {
  test.each(recorded)('%s in memory', (_, limit, digest) => {
    const steps = drawSteps(limit, 1, STEPS);
    expect(digestSteps(steps, runSteps(limit, steps))).toBe(digest);
  });

  test.each(recorded)('%s in Redis', async (_, limit, digest) => {
    const steps = drawSteps(limit, 1, STEPS);
    expect(digestSteps(steps, await runInRedis(limit, steps))).toBe(digest);
  });
});

describe('what the last build answered and stored as an estimate changed', () => {
  test.each(loads)('%s in memory', (_, limit, digest) => {
    const steps = drawLoad(1, STEPS);
    expect(digestSteps(steps, runSteps(limit, steps))).toBe(digest);
  });

  test.each(loads)('%s in Redis', async (_, limit, digest) => {
    const steps = drawLoad(1, STEPS);
    expect(digestSteps(steps, await runInRedis(limit, steps))).toBe(digest);
  });
});

test('each compiled step is one of these', () => {
  const names = recorded.map(([, limit]) => algorithmFor(limit).script.name);
  expect(Object.keys(compiled).filter((name) => !names.includes(name))).toEqual(['shared_window']); // not in memory
});
