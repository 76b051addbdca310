import { type CallOutcome, createRlsService, type RlsService } from '../../../src/edge/rls/service.ts';
import { codeNumbers, type WireRequest } from '../../../src/edge/wire/wire.ts';
import { callerWith } from '../../helpers/caller.ts';
import { type OpenCounters, openCounters } from '../../helpers/counters.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { extrasOf } from '../../helpers/extras.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { until } from '../../helpers/until.ts';

const LIMIT = 1_000;
const CALLS = 2_400;
const CLIENTS = 4;
const IN_FLIGHT = 30;
/** Longer than the calls take on any machine. */
const STORE_TIMEOUT_S = 60;

const rules = rulesFrom(`
domain: demo
descriptors:
  - {key: user, rate_limit: {algorithm: sliding_window_log, unit: day, requests_per_unit: ${LIMIT}}}
`);
const request: WireRequest = {
  domain: 'demo',
  hits_addend: 1,
  descriptors: [{ entries: [{ key: 'user', value: 'a' }], limit: null, hits_addend: null, is_negative_hits: false }],
};

let redis: Redis;
let instances: readonly OpenCounters[];
beforeAll(async () => {
  redis = await startRedis();
  const env = {
    ...{ BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: redis.url },
    STORE_TIMEOUT: `${STORE_TIMEOUT_S}s`,
  };
  instances = [await openCounters(env), await openCounters(env)];
  for (const { problem } of instances) await until('the store is ready', () => problem() === '');
});
afterAll(async () => {
  for (const { close } of instances) await close();
  await redis.stop();
});

const serviceOn = ({ ledger }: OpenCounters): RlsService =>
  createRlsService(
    deciderOf(rules, { ledger, clock: Date.now, storeBudget: () => STORE_TIMEOUT_S * 1_000 }),
    extrasOf(),
    {
      answered: () => {},
      failed: () => {},
    },
  );

const codeOf = (outcome: CallOutcome): string =>
  'error' in outcome ? outcome.error.details : outcome.response.overall_code === codeNumbers.OK ? 'OK' : 'OVER_LIMIT';

/** Sends calls, with a number of them in flight, and counts their answers. */
async function callOften(service: RlsService, counts: Map<string, number>): Promise<void> {
  let left = CALLS / CLIENTS;
  const answer = () =>
    new Promise<CallOutcome>(
      (resolve) => void service.shouldRateLimit(request, callerWith(STORE_TIMEOUT_S * 1_000), resolve),
    );
  const callInTurn = async () => {
    while (left-- > 0) {
      const code = codeOf(await answer());
      counts.set(code, (counts.get(code) ?? 0) + 1);
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, callInTurn));
}

test('four busy clients of two instances are admitted exactly the limit of one log, and get no errors', async () => {
  const counts = new Map<string, number>();
  const services = instances.map(serviceOn);
  const clients = Array.from({ length: CLIENTS / services.length }, () => services).flat();
  await Promise.all(clients.map((service) => callOften(service, counts)));
  expect(Object.fromEntries(counts)).toEqual({ OK: LIMIT, OVER_LIMIT: CALLS - LIMIT });
});
