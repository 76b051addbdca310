import '../helpers/realm.ts';
import { ByteBudget, RotatingTop, WINDOW_SLOTS } from '../../src/admin/rotating-top.ts';
import { SAMPLED, Sample } from '../../src/admin/sample.ts';
import { mergeTop, SpaceSaving, type TopList } from '../../src/admin/space-saving.ts';
import { describeKey, mergeRules, SHARED_TABLE, TopKeys } from '../../src/admin/top-keys.ts';
import { topNameOfText } from '../../src/admin/top-name.ts';
import { heapBytes } from '../helpers/heap.ts';
import { numbers, zipf } from '../helpers/numbers.ts';
import { ruleOf } from '../helpers/rules.ts';

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

/** An answer with one verdict, under `d.user`. */
const answerOf = (hits: number) =>
  ({
    verdicts: [{ kind: 'limited', rule: ruleOf({ path: 'd.user' }), decision: { code: 'OK' }, hits }],
  }) as never; // all that is read

const userOf = (value: string) => [{ entries: [{ key: 'user', value }] }];

test('behind 20,000 requests in ten seconds one of 32 is counted, as 32, and no other descriptor is read', () => {
  const top = new TopKeys(2 ** 20, new Sample(numbers(3)));
  const threeHits = answerOf(3);
  let reads = 0;
  const hit = (value: string): void => {
    const descriptor = {
      get entries() {
        reads++;
        return [{ key: 'user', value }];
      },
    };
    top.answered([descriptor], threeHits);
  };
  const countOf = (value: string): number =>
    top.lists('hits')[0]?.list.entries.find(({ key }) => key.endsWith(`:${value}`))?.count ?? 0;
  for (let request = 0; request < 20_000; request++) hit('exact');
  expect(countOf('exact')).toBe(60_000);
  for (let request = 0; request < 400_000; request++) hit(request % 4 === 0 ? 'often' : 'oftener');
  expect(reads).toBe(20_000 + 400_000 / SAMPLED);
  const [often, oftener] = [countOf('often'), countOf('oftener')];
  expect(often % (3 * SAMPLED)).toBe(0);
  expect(often + oftener).toBe(1_200_000);
  expect(Math.abs(often / 300_000 - 1)).toBeLessThan(0.05);
  expect(countOf('exact')).toBe(60_000);
  expect(top.lists('hits')[0]).toMatchObject({ countedOneIn: SAMPLED });
});

/** What a sampled count may be off by: four standard errors. */
const errorOf = (count: number): number => 4 * 6 * Math.sqrt(count);

test.each([1, 4])(
  'sampled by %i processes, Zipf hits have the stated errors, and no key above them is missing',
  (processes) => {
    const random = numbers(4);
    const tables = Array.from({ length: processes }, (_, at) => new TopKeys(2 ** 24, new Sample(numbers(5 + at))));
    const oneHit = answerOf(1);
    const exact = new Map<string, number>();
    for (let hit = 0; hit < HITS; hit++) {
      const key = zipf(random, 1_000_000);
      exact.set(key, (exact.get(key) ?? 0) + 1);
      tables[Math.floor(random() * processes)]?.answered(userOf(key), oneHit);
    }
    const [merged] = mergeRules(tables.map((table) => table.lists('hits')));
    const { entries = [], total = 0, unlistedAtMost = 0 } = merged?.list ?? {};
    expect(merged?.countedOneIn).toBe(SAMPLED);
    expect(Math.abs(total - HITS)).toBeLessThan(processes * SAMPLED);
    expect(unlistedAtMost).toBeLessThanOrEqual(total / CAPACITY);
    const listed = new Map(entries.map((one) => [describeKey(one.key).entries[0]?.value, one]));
    const frequent = [...exact].filter(([, hits]) => hits > HITS / CAPACITY);
    expect(frequent.length).toBeGreaterThan(50);
    const wrong = frequent.filter(([key, hits]) => {
      const { count, error } = listed.get(key) ?? { count: unlistedAtMost, error: unlistedAtMost };
      return count < hits - errorOf(hits) || count - error > hits + errorOf(hits);
    });
    expect(wrong).toEqual([]);
    const missing = frequent.filter(([key, hits]) => hits - errorOf(hits) > unlistedAtMost && !listed.has(key));
    expect(missing).toEqual([]);
  },
);

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
