import { type Hash, hashValue } from '../../../src/base/hashed.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { groupByDomain } from '../../../src/engine/rules/compile/by-domain.ts';
import { compile } from '../../../src/engine/rules/compile/tree-builder.ts';
import { Problems } from '../../../src/engine/rules/read/problem.ts';
import { readText } from '../../../src/engine/rules/read/read.ts';
import type { SharedCounter, SharedPlace, SharedReport } from '../../../src/parts/sites/shared-counters.ts';
import { listShares } from '../../../src/parts/sites/site-limits.ts';
import { fakeClock } from '../../helpers/clock.ts';

const RULES = `
domain: d
descriptors:
  - { key: k, rate_limit: { unit: minute, requests_per_unit: 100, sites: { mode: optimistic, max_error: 10% } } }
`;
const problems = new Problems();
const tree = compile(
  groupByDomain(readText('rules.yaml', RULES, problems), false, problems),
  { sites: 2, site: 0, group: 'names' },
  problems,
);
const keyOf = (value: string) => `site_share|fixed_window|60000/2.names|1:d|1:k|${value.length}:${value}` as CounterKey; // like a key that the rules make

const counterOf = (value: string, more: Partial<SharedCounter> = {}): SharedCounter => ({
  ...{ key: keyOf(value), epochMs: 60_000, leftMs: 5_000, room: 10, used: 40 },
  sites: [{ taken: 0, given: 0, used: 40, usedMsAgo: 0 }, place()],
  ...more,
});
const place = (more: Partial<SharedPlace> = {}): SharedPlace => ({ taken: 5, given: 0, ...more });

/** The list for two sites, made of reports of their processes. */
async function listed(
  reports: readonly SharedReport[],
  { count = 10, hash }: { readonly count?: number; readonly hash?: Hash } = {},
) {
  const replies = reports.map((report) => ({ process: 'a worker', reply: report }));
  return listShares(
    {
      ask: async () => replies,
      rules: () => tree,
      clock: fakeClock(0),
      counters: (_limit, _domain, [entry]) => ({ key: keyOf(entry?.value ?? '') }),
      hash,
    },
    ['east', 'west'],
    { count },
  );
}

test('reports of several processes are merged: the newest answer of each site, and the newer window', async () => {
  const { limits, more } = await listed([
    { counters: [counterOf('a', { sites: [place(), place({ used: 20, usedMsAgo: 900 })] })], more: 2 },
    { counters: [counterOf('a', { sites: [place(), place({ used: 22, usedMsAgo: 100 })] })], more: 1 },
    { counters: [counterOf('a', { epochMs: 0, sites: [place(), place({ used: 50, usedMsAgo: 0 })] })], more: 0 },
    { counters: [counterOf('b')], more: 0 },
  ]);
  expect(more).toBe(2); // a lower bound: processes may have left out the same counters
  expect(limits.map(({ entries }) => entries[0]?.value)).toEqual(['a', 'b']);
  expect(limits[0]?.sites[1]).toMatchObject({ used: 22, usedMsAgo: 100 });
});

test('the error is known if all sites have reported their usage', async () => {
  const over = [
    { ...place(), used: 60, usedMsAgo: 0 },
    { ...place(), used: 50, usedMsAgo: 9 },
  ];
  const { limits } = await listed([
    { counters: [counterOf('a', { sites: over, room: -5 }), counterOf('b', { room: -5 })], more: 0 },
  ]);
  expect(limits[0]).toMatchObject({ errorRatio: 0.1, errorBound: 0.1, hasFallenBack: true, left: 0 });
  expect(limits[1]?.errorRatio).toBeUndefined();
});

test('values are hashed, and counters of other rules or beyond the maximum are left out', async () => {
  const { limits, more } = await listed([{ counters: [counterOf('a'), counterOf('b'), counterOf('c')], more: 0 }], {
    count: 2,
    hash: (value) => hashValue(value, 'key'),
  });
  expect([limits.length, more]).toEqual([2, 1]);
  expect(limits[0]?.entries).toEqual([{ key: 'k', value: expect.stringMatching(/^#[\w-]{16}$/) }]);
  const gone = await listed([
    { counters: [counterOf('a', { key: 'site_share|other|1:d|1:k|1:a' as CounterKey })], more: 0 },
  ]);
  expect(gone.limits).toEqual([]);
});
