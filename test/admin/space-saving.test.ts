import '../helpers/realm.ts';
import { ByteBudget, RotatingTop, WINDOW_SLOTS } from '../../src/admin/rotating-top.ts';
import { SAMPLED } from '../../src/admin/sample.ts';
import { mergeTop, SpaceSaving, type TopList } from '../../src/admin/space-saving.ts';
import { SHARED_TABLE, TopKeys } from '../../src/admin/top-keys.ts';
import { topNameOfText } from '../../src/admin/top-name.ts';
import { heapBytes } from '../helpers/heap.ts';
import { ruleOf } from '../helpers/rules.ts';

/** The same numbers in every run, from 0 to below 1. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** A key by Zipf's law with exponent 1, of so many. */
const zipf = (random: () => number, keys: number): string => `k${Math.floor(keys ** random())}`;

const HITS = 1_000_000;
const CAPACITY = 1_000;

/** What the list says is within its bounds of what was counted, and nothing above W/k is missing. */
function expectBounds(
  { entries, total, unlistedAtMost }: TopList,
  exact: ReadonlyMap<string, number>,
  mostUnlisted: number,
): void {
  const listed = new Map(entries.map((one) => [one.key, one]));
  const wrong = entries.filter(
    ({ key, count, error }) => count < (exact.get(key) ?? 0) || count - error > (exact.get(key) ?? 0),
  );
  expect(wrong).toEqual([]);
  expect([...exact].filter(([key, count]) => count > unlistedAtMost && !listed.has(key))).toEqual([]);
  expect(unlistedAtMost).toBeLessThanOrEqual(mostUnlisted);
  expect(total).toBe([...exact.values()].reduce((sum, count) => sum + count, 0));
}

function add(table: SpaceSaving, key: string, by: number, mayGrow: boolean): void {
  const name = topNameOfText(key);
  if (!table.addToKnown(name, by)) table.addNew(name, by, mayGrow);
}

const listOf = (table: SpaceSaving): TopList => ({
  entries: [...table.entries()],
  total: table.total,
  unlistedAtMost: table.minimum,
});

test('every key above W/k of a million Zipf hits is listed, with errors within the bound', () => {
  const random = numbers(1);
  const table = new SpaceSaving();
  const exact = new Map<string, number>();
  for (let hit = 0; hit < HITS; hit++) {
    const key = zipf(random, 1_000_000);
    exact.set(key, (exact.get(key) ?? 0) + 1);
    add(table, key, 1, table.size < CAPACITY);
  }
  expectBounds(listOf(table), exact, HITS / CAPACITY);
});

test('the bounds hold for tables of several processes and slots of time together', () => {
  const random = numbers(2);
  const exact = new Map<string, number>();
  const tables = Array.from({ length: 4 }, () => new SpaceSaving());
  for (let hit = 0; hit < 100_000; hit++) {
    const key = zipf(random, 100_000);
    const by = 1 + (hit % 3);
    exact.set(key, (exact.get(key) ?? 0) + by);
    const table = tables[Math.floor(random() * tables.length)] as SpaceSaving;
    add(table, key, by, table.size < 100);
  }
  expectBounds(mergeTop(tables.map(listOf)), exact, 200_000 / 100);
});

test('ten million distinct keys take no more than the budget', () => {
  const budget = new ByteBudget(200_000);
  const top = new RotatingTop(CAPACITY, budget);
  for (let hit = 0; hit < 10_000_000; hit++) top.add(topNameOfText(`user=${hit}`), 1);
  expect(budget.usedBytes).toBeLessThanOrEqual(200_000 + CAPACITY * 30); // keys that take over a slot may be a little longer
  expect(top.list()).toMatchObject({ total: 10_000_000 });
});

test('a window older than a minute is dropped as a whole', () => {
  const top = new RotatingTop(10, new ByteBudget(10_000));
  top.add(topNameOfText('a'), 5);
  for (let slot = 1; slot < WINDOW_SLOTS; slot++) top.rotate();
  expect(top.list()).toMatchObject({ total: 5, entries: [{ key: 'a', count: 5, error: 0 }] });
  top.rotate();
  expect(top.list()).toMatchObject({ total: 0, entries: [] });
});

test.each([10, 900])('rules whose names, of %i characters, callers choose take no more than the budget', (length) => {
  const maxBytes = 4 * 2 ** 20;
  const top = new TopKeys(maxBytes);
  const before = heapBytes();
  for (let rule = 0; rule < 20_000; rule++) {
    const value = Buffer.from(`${rule}`.padStart(length, 'n')).toString(); // in one piece, as from a request
    const decision = { code: 'OVER_LIMIT' };
    const answer = { verdicts: [{ kind: 'limited', rule: ruleOf({ path: `d.user_${value}` }), decision, hits: 1 }] };
    top.answered([{ entries: [{ key: 'user', value }] }], answer as never); // all that is read
  }
  expect(heapBytes() - before).toBeLessThan(maxBytes);
  expect(top.bytes).toBeLessThanOrEqual(maxBytes);
});

test('beyond 20,000 requests in ten seconds one in 16 is counted, as 16', () => {
  const top = new TopKeys(2 ** 20);
  const answer = {
    verdicts: [{ kind: 'limited', rule: ruleOf({ path: 'd.user' }), decision: { code: 'OK' }, hits: 3 }],
  };
  const hit = (value: string) => top.answered([{ entries: [{ key: 'user', value }] }], answer as never); // all that is read
  const countOf = (value: string): number =>
    top.lists('hits')[0]?.list.entries.find(({ key }) => key.endsWith(`:${value}`))?.count ?? 0;
  for (let request = 0; request < 20_000; request++) hit('exact');
  expect(countOf('exact')).toBe(60_000);
  for (let request = 0; request < 400_000; request++) hit(request % 4 === 0 ? 'often' : 'oftener');
  const [often, oftener] = [countOf('often'), countOf('oftener')];
  expect(often % (3 * SAMPLED)).toBe(0);
  expect(Math.abs(often / 300_000 - 1)).toBeLessThan(0.05);
  expect(Math.abs(oftener / 900_000 - 1)).toBeLessThan(0.05);
  expect(countOf('exact')).toBe(60_000);
  top.rotate();
  hit('later');
  expect(countOf('later')).toBe(3);
});

test('rules that do not fit share a table, and give memory back when they are quiet', () => {
  const top = new TopKeys(100_000);
  const decision = { code: 'OVER_LIMIT' };
  const answerOf = (rule: string) =>
    ({ verdicts: [{ kind: 'limited', rule: ruleOf({ path: rule }), decision, hits: 1 }] }) as never; // all that is read
  const hit = (rule: string, value: string) => top.answered([{ entries: [{ key: 'user', value }] }], answerOf(rule));
  for (let rule = 0; rule < 20; rule++) for (let user = 0; user < 100; user++) hit(`d.rule${rule}`, `u${user}`);
  const lists = top.lists('refusals');
  expect(lists.map(({ rule }) => rule)).toContain(SHARED_TABLE);
  expect(lists.length).toBeGreaterThan(2);
  expect(lists.reduce((sum, { list }) => sum + list.total, 0)).toBe(2_000);
  for (let slot = 0; slot <= WINDOW_SLOTS; slot++) top.rotate();
  expect(top.lists('hits')).toEqual([]);
  expect(top.bytes).toBe(0);
});
