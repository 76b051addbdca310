import { randomUUID } from 'node:crypto';
import type { Clock } from '../../../src/base/clock.ts';
import { createDetail } from '../../../src/edge/rls/detail.ts';
import { createResponseHeaders } from '../../../src/edge/rls/headers.ts';
import { encodeAnswer } from '../../../src/edge/wire/codec.ts';
import { MAX_COUNT, unitMs } from '../../../src/engine/algorithms/limit.ts';
import { createCounterKeys, ownCounters } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { MemoryUsage, type UsageSource } from '../../../src/engine/backends/usage.ts';
import { type Answer, type Decider, decide, type RateLimitRequest } from '../../../src/engine/decide/decide.ts';
import { requestDebits } from '../../../src/engine/decide/plan.ts';
import type { RuleTree } from '../../../src/engine/rules/match/tree.ts';
import { formatProblem } from '../../../src/engine/rules/read/problem.ts';
import type { LoadedRules } from '../../../src/engine/rules/reload/load.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { RedisUsage } from '../../../src/parts/redis/usage.ts';
import { lapses } from '../../../src/parts/reservations/reservation.ts';
import { type FakeClock, fakeClock } from '../../helpers/clock.ts';
import { openReady } from '../../helpers/connection.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { randomOf } from '../../helpers/random.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { loadText, rulesFrom } from '../../helpers/rules.ts';

let server: Redis;
let redis: Awaited<ReturnType<typeof openReady>>;
beforeAll(async () => {
  server = await startRedis();
  redis = await openReady(server);
});
const opened: RedisBackend[] = [];
afterAll(async () => {
  for (const backend of opened) await backend.close();
  redis.disconnect();
  await server.stop();
});

interface Store {
  readonly decider: Decider;
  readonly usage: UsageSource;
}

const stores: Readonly<Record<string, (rules: RuleTree, clock: Clock) => Store>> = {
  memory(rules, clock) {
    const usage = new MemoryUsage(clock, randomUUID);
    const backend = createMemoryBackend(clock, { maxCounters: 1_000 }, { usage });
    return { decider: deciderOf(rules, { ledger: ledgerOf(backend), clock, metersUsage: true }), usage };
  },
  Redis(rules, clock) {
    const prefix = `${randomUUID()}:`;
    const usage = new RedisUsage(redis, prefix);
    const backend = new RedisBackend(redis, clock, {
      replay: true,
      slowMs: 60_000,
      prefix,
      usage,
    });
    opened.push(backend);
    const counters = ownCounters(createCounterKeys(prefix));
    const ledger = ledgerOf(backend);
    const decider = deciderOf(rules, { ledger, counters, clock, metersUsage: true, storeBudget: () => 10_000 });
    return { decider, usage };
  },
};

/** Descriptors as in `tenant=a,request_id=1`, with their hits. */
type Sent = readonly (readonly [descriptor: string, hits: number])[];

const requestOf = (sent: Sent): RateLimitRequest => ({
  domain: 'llm',
  descriptors: sent.map(([written, hits]) => ({
    entries: written.split(',').map((one) => {
      const [key = '', value = ''] = one.split('=');
      return { key, value };
    }),
    requestLimit: undefined,
    hits,
  })),
});

const ask = async ({ decider }: Store, sent: Sent): Promise<Answer> => decide(requestOf(sent), decider, 60_000);

function decisionOf({ verdicts }: Answer, at = 0) {
  const verdict = verdicts[at];
  if (verdict?.kind !== 'limited') throw new Error(`the verdict is ${verdict?.kind}`);
  return verdict.applied?.[0]?.decision ?? verdict.decision; // of several limits the first, which is the budget
}

/** Takes all that was used, by counter. */
async function drain(usage: UsageSource): Promise<ReadonlyMap<string, bigint>> {
  const sums = new Map<string, bigint>();
  const [batch] = (await usage.setAside('test')).batches;
  if (!batch) return sums;
  const whole = new Map<string, { readonly key: string; readonly hits: number }>();
  let after: string | undefined;
  do {
    const page = await usage.read(batch.id, after);
    for (const entry of page?.entries ?? []) whole.set(`${entry.hour} ${entry.key}`, entry);
    for (const { key, hits } of page?.added ?? []) sums.set(key, (sums.get(key) ?? 0n) + BigInt(hits));
    after = page?.next;
  } while (after !== undefined);
  for (const { key, hits } of whole.values()) sums.set(key, (sums.get(key) ?? 0n) + BigInt(hits));
  await usage.drop(batch.id);
  return sums;
}

/** Prices per token, in 10^-12 USD: a finer unit than the service's. */
const PRICES = {
  hold: 2_000_000n,
  'input small': 75_000n,
  'output small': 300_000n,
  'input large': 2_500_000n,
  'output large': 10_000_000n,
} as const;
const BUDGET = 8_000_000_000_000n;
const ESTIMATE = 50_000_000_000n;
const TTL_MS = 60_000;

interface Hold {
  readonly amount: bigint;
  readonly month: string;
  readonly untilMs: number;
  /** It lapsed in this month, and its amount is charged. */
  chargedIn?: string;
}

interface Account {
  month: string;
  charged: bigint;
  used: bigint;
  readonly held: Map<string, Hold>;
  readonly settledMs: Map<string, number>;
}

/** The same budget in big integers of another unit, with plain lists of what is open and settled. */
class Oracle {
  readonly #clock: FakeClock;
  readonly #onLapse: (typeof lapses)[number];
  readonly #accounts = new Map<string, Account>();

  constructor(clock: FakeClock, onLapse: (typeof lapses)[number]) {
    this.#clock = clock;
    this.#onLapse = onLapse;
  }

  reserve(tenant: string, id: string, tokens: number): Answer['overallCode'] {
    const account = this.#account(tenant);
    const wanted = BigInt(tokens) * PRICES.hold;
    const amount = wanted > ESTIMATE ? wanted : ESTIMATE;
    let sum = account.charged + amount;
    for (const one of account.held.values())
      if (one.month === account.month && one.untilMs > this.#clock()) sum += one.amount;
    if (sum > BUDGET) return 'OVER_LIMIT';
    account.held.set(id, { amount, month: account.month, untilMs: this.#clock() + TTL_MS });
    return 'OK';
  }

  commit(tenant: string, id: string, parts: readonly (readonly [string, number])[]): void {
    const account = this.#account(tenant);
    const settledMs = account.settledMs.get(id);
    if (settledMs !== undefined && this.#clock() - settledMs < TTL_MS) return;
    const hold = account.held.get(id);
    const isKnown = hold !== undefined && this.#clock() - hold.untilMs < TTL_MS; // else the lapsed amount stays charged
    if (isKnown && hold.chargedIn === account.month) account.charged -= hold.amount;
    if (isKnown && hold.chargedIn !== undefined) account.used -= hold.amount;
    account.held.delete(id);
    account.settledMs.set(id, this.#clock());
    for (const [what, tokens] of parts) {
      const cost = BigInt(tokens) * PRICES[what as keyof typeof PRICES];
      account.charged += cost;
      account.used += cost;
    }
  }

  refund(tenant: string, tokens: number): void {
    const account = this.#account(tenant);
    const amount = BigInt(tokens) * PRICES.hold;
    const given = account.charged > amount ? amount : account.charged;
    account.charged -= given;
    account.used -= given;
  }

  /** In billionths. */
  charged = (tenant: string): bigint => exactly(this.#account(tenant).charged);
  used = (tenant: string): bigint => exactly(this.#account(tenant).used);

  /** Charges what has lapsed in this month, and counts all that has lapsed as used. */
  #lapse(account: Account): bigint {
    let amount = 0n;
    for (const hold of account.held.values()) {
      if (hold.chargedIn !== undefined || hold.untilMs > this.#clock()) continue;
      hold.chargedIn = monthIn.format(hold.untilMs);
      account.used += hold.amount;
      if (hold.chargedIn === account.month) amount += hold.amount;
    }
    return amount;
  }

  #account(tenant: string): Account {
    const month = monthIn.format(this.#clock());
    const account = this.#accounts.get(tenant) ?? {
      month,
      charged: 0n,
      used: 0n,
      held: new Map(),
      settledMs: new Map(),
    };
    this.#accounts.set(tenant, account);
    if (account.month !== month) Object.assign(account, { month, charged: 0n });
    if (this.#onLapse === 'charge') account.charged += this.#lapse(account);
    return account;
  }
}

const monthIn = new Intl.DateTimeFormat('en', { timeZone: 'Europe/Berlin', year: 'numeric', month: '2-digit' });

function exactly(amount: bigint): bigint {
  expect(amount % 1_000n).toBe(0n);
  return amount / 1_000n;
}

const RULES = `
domain: llm
spend: all_or_nothing
descriptors:
  - key: tenant
    descriptors:
      - key: request_id
        not_counted: hold
        unit_cost: 0.002 USD per 1000
        rate_limits:
          - { unit: month, budget: 8.00 USD, alignment: calendar, timezone: Europe/Berlin,
              reserve: { ttl: 60s, estimate: 0.05 USD } }
          - { unit: minute, requests_per_unit: 100000000, reserve: { ttl: 60s } }
        descriptors:
          - { key: input, value: small, not_counted: commit, unit_cost: 0.000075 USD per 1000 }
          - { key: output, value: small, not_counted: commit, unit_cost: 0.0003 USD per 1000 }
          - { key: input, not_counted: commit, unit_cost: 0.0025 USD per 1000 }
          - { key: output, not_counted: commit, unit_cost: 0.01 USD per 1000 }
          - { key: ended, value: failed, not_counted: commit }
  - key: lookup
    unit_cost: 0.015 USD
    rate_limit: { unit: day, budget: 9000000 USD }
  - key: tokens
    rate_limit: { unit: month, requests_per_unit: 9007199254740990 }
`;

describe.each(Object.entries(stores))('counted in %s', (_, open) => {
  test('a commit in parts charges the price of each, and the tokens of all', async () => {
    const store = open(rulesFrom(RULES), fakeClock());
    await ask(store, [['tenant=a,request_id=1', 1_000]]);
    const answer = await ask(store, [
      ['tenant=a,request_id=1,input=small', 3_001],
      ['tenant=a,request_id=1,output=small', 700],
      ['tenant=a,request_id=1,output=large', 10],
    ]);
    const cost = 3_001 * 75 + 700 * 300 + 10 * 10_000; // in billionths
    expect(decisionOf(answer).reservation).toMatchObject({ event: 'committed', reserved: 50_000_000, charged: cost });
    for (const at of [1, 2]) expect(decisionOf(answer, at).reservation).toMatchObject({ event: 'added', charged: 0 });
    const again = await ask(store, [['tenant=a,request_id=1,output=small', 700]]);
    expect(decisionOf(again).reservation).toMatchObject({ event: 'repeated', charged: 0 });
    const peek = await ask(store, [['tenant=a,request_id=2', 0]]);
    const verdict = peek.verdicts[0];
    if (verdict?.kind !== 'limited') throw new Error('no limit');
    expect(verdict.applied?.map(({ decision }) => decision.hitsBefore)).toEqual([cost, 3_711]);
    expect([...(await drain(store.usage)).values()]).toEqual([BigInt(cost)]);
  });

  test('a failed request costs nothing, even if its parts follow', async () => {
    const store = open(rulesFrom(RULES), fakeClock());
    await ask(store, [['tenant=a,request_id=1', 1_000]]);
    await ask(store, [
      ['tenant=a,request_id=1,ended=failed', 0],
      ['tenant=a,request_id=1,input=small', 3_000],
      ['tenant=a,request_id=1,output=small', 700],
    ]);
    expect(decisionOf(await ask(store, [['tenant=a,request_id=2', 0]])).hitsBefore).toBe(0);
  });

  test('only the first part of a commit names its reservation, so that no other settles it first', () => {
    const { decider } = open(rulesFrom(RULES), fakeClock());
    const path = 'tenant=a,request_id=1';
    const debits = requestDebits(
      requestOf([
        [`${path},input=small`, 1],
        [`${path},output=small`, 2],
      ]),
      decider,
    );
    expect(debits.map(({ hits, holder = 0 }) => ({ hits, isNamed: holder !== 0 }))).toEqual([
      { hits: 675, isNamed: true },
      { hits: 3, isNamed: true },
      { hits: 0, isNamed: false },
      { hits: 0, isNamed: false },
    ]);
  });

  test('one request id may be used by two tenants', async () => {
    const store = open(rulesFrom(RULES), fakeClock());
    const answer = await ask(store, [
      ['tenant=a,request_id=1,input=small', 1],
      ['tenant=b,request_id=1,input=small', 2],
    ]);
    expect([0, 1].map((at) => decisionOf(answer, at).reservation?.charged)).toEqual([75, 150]);
  });

  test('counts are exact up to 2^53, and refuse what would exceed it', async () => {
    const store = open(rulesFrom(RULES), fakeClock());
    const peek = async () => decisionOf(await ask(store, [['tokens=a', 0]]));
    await ask(store, [['tokens=a', MAX_COUNT - 3]]);
    expect(await peek()).toMatchObject({ hitsBefore: MAX_COUNT - 3, limitRemaining: 2 });
    expect((await ask(store, [['tokens=a', 3]])).overallCode).toBe('OVER_LIMIT');
    expect((await ask(store, [['tokens=a', 1]])).overallCode).toBe('OK');
    expect((await ask(store, [['tokens=a', 1]])).overallCode).toBe('OK');
    expect(await peek()).toMatchObject({ hitsBefore: MAX_COUNT - 1, limitRemaining: 0 });
    expect((await ask(store, [['tokens=a', MAX_COUNT]])).overallCode).toBe('OVER_LIMIT');
    expect([...(await drain(store.usage)).values()]).toEqual([BigInt(MAX_COUNT - 1)]);
  });

  test('hits whose cost exceeds any budget are refused', async () => {
    const store = open(rulesFrom(RULES), fakeClock());
    expect((await ask(store, [['lookup=a', MAX_COUNT]])).overallCode).toBe('OVER_LIMIT');
    expect((await ask(store, [['lookup=a', 600_000_000]])).overallCode).toBe('OK'); // 9,000,000 USD
    expect((await ask(store, [['lookup=a', 1]])).overallCode).toBe('OVER_LIMIT');
  });

  test.each(lapses)(
    'a year of requests, late and repeated commits and refunds is charged as the oracle says, with on_lapse: %s',
    async (onLapse) => {
      const clock = fakeClock(Date.UTC(2026, 0, 1));
      const rules = onLapse === lapses[0] ? RULES : RULES.replaceAll('ttl: 60s', `ttl: 60s, on_lapse: ${onLapse}`); // the default
      const store = open(rulesFrom(rules), clock);
      const oracle = new Oracle(clock, onLapse);
      const random = randomOf(20_261_128);
      const pick = (most: number): number => Math.floor(random() * most);
      const sent: { readonly tenant: string; readonly id: string }[] = [];
      const seen = { OK: 0, OVER_LIMIT: 0, late: 0, repeated: 0, committed: 0, unknown: 0 };
      const endMs = Date.UTC(2027, 0, 1);
      for (let number = 0; clock() < endMs; number++) {
        clock.advance(pick(7) === 0 ? pick(3 * unitMs.DAY) : pick(40_000));
        const tenant = pick(3) === 0 ? 'b' : 'a';
        const known = sent[sent.length - 1 - pick(Math.min(sent.length, 3))];
        switch (known ? pick(8) : 0) {
          case 0:
          case 1:
          case 2: {
            const [id, tokens] = [`r${number}`, 1 + pick(500_000)];
            const { overallCode } = await ask(store, [[`tenant=${tenant},request_id=${id}`, tokens]]);
            expect({ number, overallCode }).toEqual({ number, overallCode: oracle.reserve(tenant, id, tokens) });
            if (overallCode === 'OK') sent.push({ tenant, id });
            seen[overallCode]++;
            break;
          }
          case 3: {
            const tokens = 1 + pick(200_000);
            await ask(store, [[`tenant=${tenant},request_id=refund${number}`, -tokens]]);
            oracle.refund(tenant, tokens);
            break;
          }
          default: {
            const { tenant: own, id } = known ?? { tenant, id: '' };
            const model = pick(2) === 0 ? 'small' : 'large';
            const [input, output] = [pick(400_000), pick(60_000)];
            const hasFailed = pick(12) === 0;
            const path = `tenant=${own},request_id=${id}`;
            const answer = await ask(store, [
              ...(hasFailed ? ([[`${path},ended=failed`, 0]] as const) : []),
              [`${path},input=${model}`, input],
              [`${path},output=${model}`, output],
            ]);
            const event = decisionOf(answer).reservation?.event;
            if (event !== undefined && event in seen) seen[event as keyof typeof seen]++;
            oracle.commit(
              own,
              id,
              hasFailed
                ? []
                : [
                    [`input ${model}`, input],
                    [`output ${model}`, output],
                  ],
            );
          }
        }
        const { hitsBefore, reservation } = decisionOf(await ask(store, [[`tenant=${tenant},request_id=`, 0]]));
        expect({ number, charged: BigInt(hitsBefore - (reservation?.held ?? 0)) }).toEqual({
          number,
          charged: oracle.charged(tenant),
        });
      }
      expect({ seen, isVaried: Object.values(seen).every((count) => count > 10) }).toEqual({ seen, isVaried: true });
      const used = await drain(store.usage);
      for (const tenant of ['a', 'b'])
        expect([...used].find(([key]) => key.endsWith(`1:${tenant}`))?.[1]).toBe(oracle.used(tenant));
    },
    120_000,
  );
});

const rule = (unitCost: string, limit: string): string =>
  `domain: llm\ndescriptors:\n  - key: a\n    ${unitCost}\n    rate_limit: { ${limit} }\n`;
const daily = (limit: string): string => rule('unit_cost: 0.01 USD', `unit: day, ${limit}`);

const problemsOf = (loaded: LoadedRules) => (loaded.ok ? loaded.warnings : loaded.problems);

describe('rules with budgets', () => {
  test.each([
    [rule('shadow_mode: false', 'unit: day, budget: 1 USD'), 'requires unit_cost beside rate_limit'],
    [rule('unit_cost: 1 EUR', 'unit: day, budget: 1 USD'), 'must be in USD, the currency of the budget'],
    [rule('unit_cost: 1 USD per 3', 'unit: day, budget: 1 USD'), 'it has a fraction of a billionth of a USD'],
    [rule('unit_cost: 0.0000000001 USD', 'unit: day, budget: 1 USD'), 'it has a fraction of a billionth of a USD'],
    [rule('unit_cost: cheap', 'unit: day, budget: 1 USD'), 'it is no amount and currency'],
    [daily('budget: 1 USD per 2'), "must be an amount such as 500.00 USD, got '1 USD per 2'"],
    [daily('budget: 9007199.254740991 USD'), 'it is more than 9007199.25474099 USD'],
    [daily('budget: 1 USD, requests_per_unit: 1'), 'cannot be used with budget'],
    [daily('budget: 1 USD, soft: 1'), 'cannot be used with budget'],
    [
      daily('budget: 110 USD, algorithm: token_bucket'),
      'must stay below 2^53 to be exact, got 9504000000000000000; take a',
    ],
    [daily('budget: 110 USD, algorithm: token_bucket'), 'a budget is counted in billionths of its currency'],
    [daily('budget: 1 USD, algorithm: sliding_window_log'), 'cannot be used with sliding_window_log'],
    [daily('requests_per_unit: 9007199254740990, soft: 1'), 'together must be at most 9007199254740990'],
    [daily('requests_per_unit: 105000000, algorithm: sliding_window_counter'), 'must stay below 2^53'],
    [
      rule('detailed_metric: true', 'unit: second, requests_per_unit: 4294967296, share: { by: b }'),
      'token_bucket with share counts at most 4294967295 hits, got 4294967296',
    ],
  ])('%j is refused', (text, message) => {
    const loaded = loadText(text);
    expect(loaded.ok).toBe(false);
    expect(problemsOf(loaded).map(formatProblem).join('\n')).toContain(message);
  });

  test('an estimate is an amount within the budget', () => {
    const withEstimate = (estimate: string): readonly string[] =>
      problemsOf(loadText(RULES.replace('0.05 USD', estimate))).map(formatProblem);
    expect(withEstimate('8 USD')).toEqual([]);
    for (const wrong of ['8.01 USD', '1 EUR', '50', '0.00 USD'])
      expect(withEstimate(wrong).join()).toContain(
        `must be p95, or an amount up to the budget of 8.00 USD, got '${wrong}'`,
      );
  });

  test('a price without a budget is reported', () => {
    const problems = problemsOf(loadText(daily('requests_per_unit: 1')));
    expect(problems.map(({ message }) => message)).toEqual(['has no effect: this node has no budget']);
  });

  test('a schedule may replace a budget by another, or by hits', async () => {
    const rules = rulesFrom(
      daily(
        'budget: 1 USD, schedule: [{ active: { hours: "12:00-13:00" }, budget: 2 USD }, { active: { hours: "14:00-15:00" }, requests_per_unit: 7 }]',
      ),
    );
    const [rule] = rules.rules;
    const at = (hour: number) => rule?.schedule?.at(Date.UTC(2026, 0, 1, hour))[0]?.limit;
    expect([11, 12, 14].map((hour) => at(hour)?.requestsPerUnit)).toEqual([1e9, 2e9, 7]);
    expect(at(11)?.counter).toBe(at(12)?.counter);
    expect(at(14)?.counter).not.toBe(at(12)?.counter);
  });
});

describe('what callers see', () => {
  const headers = createResponseHeaders({
    limits: { limit: 'limit', remaining: 'remaining', reset: 'reset' },
    ofEveryDescriptor: false,
    ietf: true,
    retryAfter: [],
    soft: '',
    wouldRefuse: '',
    quotaMode: false,
    maxWaitMs: 24 * 86_400_000,
  });
  const shown = async (limit: string, hits: number) => {
    const clock = fakeClock();
    const answer = await ask(
      { decider: deciderOf(rulesFrom(daily(limit)), { clock }), usage: new MemoryUsage(clock, randomUUID) },
      [['a=1', hits]],
    );
    const [status] = encodeAnswer(answer, [], undefined).statuses;
    const values = Object.fromEntries(headers(answer).map(({ key, value }) => [key, value]));
    return { status, values, detail: createDetail(answer).fields };
  };

  test('of a budget: amounts in headers and the detail, whole cents elsewhere', async () => {
    const { status, values, detail } = await shown('budget: 499.999 USD', 123);
    expect(status).toMatchObject({ current_limit: { requests_per_unit: 49_999 }, limit_remaining: 49_876 });
    expect(values).toMatchObject({ limit: '499.999', remaining: '498.769' });
    expect(values['RateLimit-Policy']).toBe('"llm.a";q=49999;qu="USD-cents";w=86400');
    expect(values.RateLimit).toMatch(/^"llm.a";r=49876;t=\d+$/);
    expect(detail).toMatchObject({ limit: { stringValue: '499.999 USD' }, remaining: { stringValue: '498.769 USD' } });
  });

  test('of a limit beyond 32 bits: the exact count in headers and the detail, 2^32 - 1 in the status', async () => {
    const { status, values, detail } = await shown('requests_per_unit: 9007199254740990', 10);
    expect(status).toMatchObject({ current_limit: { requests_per_unit: 2 ** 32 - 1 }, limit_remaining: 2 ** 32 - 1 });
    expect(values).toMatchObject({ limit: '9007199254740990', remaining: '9007199254740980' });
    expect(values.RateLimit).toMatch(/^"llm.a";r=999999999999999;/); // the largest integer of RFC 9651
    expect(detail).toMatchObject({ remaining: { numberValue: 9_007_199_254_740_980 } });
  });
});
