import type { Backend } from '../../../src/engine/backends/backend.ts';
import { createCounterKeys, ownCounters } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { findCounter } from '../../../src/engine/decide/counter-key.ts';
import type { Limit } from '../../../src/engine/holds/limits.ts';
import type { Ledger } from '../../../src/engine/ledger/ledger.ts';
import { match } from '../../../src/engine/rules/match/match.ts';
import { type Level, listRules, type Node, type RuleTree } from '../../../src/engine/rules/match/tree.ts';
import { type CandidateOptions, ruleTextOperations } from '../../../src/parts/candidate/rule-text-operations.ts';
import { listCounters } from '../../../src/parts/counters/named-counters.ts';
import { RedisBackend } from '../../../src/parts/redis/backend.ts';
import { TopKeys } from '../../../src/parts/top/top-keys.ts';
import { openReady } from '../../helpers/connection.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { operationOf } from '../../helpers/operations.ts';
import { type Redis, startRedis } from '../../helpers/redis.ts';
import { ruleOf, rulesFrom } from '../../helpers/rules.ts';
import { mostStepsInATurn } from '../../helpers/turns.ts';

/** `LISTED_COUNTERS=1000000` for the long form. */
const COUNTERS = Number(process.env.LISTED_COUNTERS ?? 5_000);
const RULES = 10_000;

const rules = rulesFrom(
  `domain: demo\ndescriptors:\n${Array.from(
    { length: RULES },
    (_, at) =>
      `  - {key: tenant, value: t${at}, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 5}}]}\n`,
  ).join('')}`,
);

let server: Redis;
let redis: Backend;
beforeAll(async () => {
  server = await startRedis();
  redis = new RedisBackend(await openReady(server), Date.now, { slowMs: 60_000 });
});
afterAll(async () => {
  await redis.close();
  await server.stop();
});

const entriesOf = (counter: number) => [
  { key: 'tenant', value: `t${counter % RULES}` },
  { key: 'user', value: `u${counter}` },
];

const decider = { clock: Date.now, counters: ownCounters(createCounterKeys('')) };

/** Counts one hit for each descriptor, with many hits per call. */
async function fill(backend: Backend, tree: RuleTree): Promise<void> {
  const keys = createCounterKeys('');
  const IN_A_CALL = 1_000;
  for (let from = 0; from < COUNTERS; from += IN_A_CALL) {
    const operations = Array.from({ length: Math.min(IN_A_CALL, COUNTERS - from) }, (_, at) => {
      const found = match(tree, 'demo', { entries: entriesOf(from + at), requestLimit: undefined });
      const limit = (found.kind === 'limited' && found.limits[0]?.limit) as Limit; // each descriptor has one
      return operationOf({ key: keys(limit, 'demo', entriesOf(from + at)) }, limit, 1, true);
    });
    const replies = await backend.run(operations, { spend: 'each', timeoutMs: 60_000 });
    expect(replies.filter(({ code }) => code !== 'OK')).toEqual([]);
  }
}

/** The number of counters of a page, and of those that are read in a turn of the event loop. */
const [PAGE_COUNTERS, COUNTERS_A_TURN] = [1_000, 100];

/** A level of 2,500 rules; creating one of them counts as a step. */
function levelOf(step: () => void): Level {
  const rule = ruleOf({ place: { file: __filename, line: 1 } });
  const nodes = Array.from({ length: 2_500 }, (_, at): readonly [string, Node] => [
    `v${at}`,
    {
      ...{ composite: `k_v${at}`, naming: 'rule', hasRule: true, children: undefined, sharedValue: undefined },
      get rule() {
        step();
        return rule;
      },
    },
  ]);
  const branch = {
    byValue: new Map(nodes),
    addresses: undefined,
    patterns: undefined,
    keyPatterns: undefined,
    anyValue: undefined,
  };
  return { byKey: new Map([['k', branch]]), keyPatterns: undefined };
}

test('the files of a domain are found without creating rules of other domains', async () => {
  let others = 0;
  const roots = { shop: levelOf(() => {}), other: levelOf(() => others++) };
  const domains = new Map(
    Object.entries(roots).map(([name, root]) => [name, { name, spend: undefined, root, ruleCount: 2_500 }]),
  );
  const tree = { domains, rules: listRules(domains) };
  const settings = { rules: { origin: { path: __dirname } } };
  const options = { rules: () => tree, settings } as unknown as CandidateOptions; // the properties that it reads
  const [, text] = ruleTextOperations(options);
  expect(await text?.answer({ query: { domain: 'shop' } } as never)).toMatchObject({ files: [{ name: __filename }] });
  expect(others).toBe(0);
});

/** A ledger for which each read of a counter counts as a step. */
const counted = (ledger: Ledger, step: () => void): Pick<Ledger, 'list' | 'fork'> & Ledger =>
  Object.assign(Object.create(ledger), {
    list: ledger.list.bind(ledger),
    fork(debits: Parameters<Ledger['fork']>[0], timeoutMs: number) {
      for (const _ of debits) step();
      return ledger.fork(debits, timeoutMs);
    },
  });

test.each(['memory', 'Redis'])(
  `a listing of %s has every one of ${COUNTERS} counters of ${RULES} rules, and works on a few in a turn`,
  async (name) => {
    const backend = name === 'memory' ? createMemoryBackend(Date.now, { maxCounters: COUNTERS + 1 }) : redis;
    await fill(backend, rules);
    const ledger = ledgerOf(backend, { clock: Date.now });
    const seen = new Set<string>();
    let pages = 0;
    const most = await mostStepsInATurn(async (step) => {
      const counting = { ...decider, rules: () => rules, ledger: counted(ledger, step) };
      for (let after: string | undefined = ''; after !== undefined; pages++) {
        const page = await listCounters(after === '' ? {} : { after }, counting);
        expect(page.looked).toBeLessThanOrEqual(2 * PAGE_COUNTERS); // Redis may return slightly more than requested
        for (const { entries, used } of page.counters) {
          expect(used).toBe(1);
          seen.add(entries[1]?.value ?? '');
        }
        after = page.next;
      }
    });
    expect(seen.size).toBe(COUNTERS);
    expect(most).toBeLessThanOrEqual(COUNTERS_A_TURN);
    expect(pages).toBeGreaterThanOrEqual(COUNTERS / (2 * PAGE_COUNTERS));
    if (name === 'memory') expect(pages).toBe(Math.ceil(COUNTERS / PAGE_COUNTERS));
  },
  3_600_000,
);

test.each<[prefix: string, hashTag: 'none' | 'domain']>([
  ['', 'none'],
  ['weir:', 'none'],
  ['weir:', 'domain'],
])('counters with the prefix %j and hash tag %s are recognized, those of a candidate are not', (prefix, hashTag) => {
  const found = match(rules, 'demo', { entries: entriesOf(7), requestLimit: undefined });
  const limit = (found.kind === 'limited' && found.limits[0]?.limit) as Limit;
  const ruleOf = (of: string): string | undefined => {
    const counters = ownCounters(createCounterKeys(prefix, { hashTag }));
    const key = createCounterKeys(of, { hashTag })(limit, 'demo', entriesOf(7));
    return findCounter(rules, key, { clock: Date.now, counters })?.rule.path;
  };
  expect(ruleOf(prefix)).toBe('demo.tenant_t7.user');
  expect(ruleOf(`${prefix}candidate|`)).toBeUndefined();
  expect(ruleOf(`${prefix}other`)).toBeUndefined();
});

test('the rule of a counter is found with a few lookups in a map, regardless of the number of rules', () => {
  const keys = createCounterKeys('');
  const found = match(rules, 'demo', { entries: entriesOf(7), requestLimit: undefined });
  const limit = (found.kind === 'limited' && found.limits[0]?.limit) as Limit;
  let searches = 0;
  const byDomain = Object.assign(new Map(rules.domains), {
    get(domain: string) {
      searches++;
      return rules.domains.get(domain);
    },
  });
  const key = keys(limit, 'demo', entriesOf(7));
  expect(findCounter({ ...rules, domains: byDomain }, key, decider)?.rule.path).toBe('demo.tenant_t7.user');
  expect(searches).toBeLessThanOrEqual(4);
});

test('one table of top keys is listed per turn', async () => {
  const top = new TopKeys(2 ** 24);
  for (let at = 0; at < 100; at++) {
    const found = { entries: [{ key: 'k', value: 'v' }] };
    const verdict = {
      kind: 'limited',
      rule: ruleOf({ path: `demo.k${at}` }),
      found,
      hits: 1,
      decision: { code: 'OK' },
    };
    top.answered({
      ...{ overallCode: 'OK', shadowed: false, delayMs: 0 },
      verdicts: [verdict as never], // the only properties that are read
    });
  }
  let turns = 0;
  let isDone = false;
  const count = (): void => {
    turns++;
    if (!isDone) setImmediate(count);
  };
  setImmediate(count);
  expect(await top.lists('hits')).toHaveLength(100);
  isDone = true;
  expect(turns).toBeGreaterThanOrEqual(100);
});
