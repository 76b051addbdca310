import '../../../helpers/realm.ts';
import { ByteBudget, RotatingTop, WINDOW_SLOTS } from '../../../../src/parts/lab/sketches/rotating-top.ts';
import { describeTop, mergeRules, type RuleTop } from '../../../../src/parts/lab/sketches/rule-top.ts';
import { EXACT, SAMPLED, Sample } from '../../../../src/parts/lab/sketches/sample.ts';
import { mergeTop, SpaceSaving, type TopList } from '../../../../src/parts/lab/sketches/space-saving.ts';
import { SHARED_TABLE, TopKeys } from '../../../../src/parts/top/top-keys.ts';
import { heapBytes } from '../../../helpers/heap.ts';
import { numbers, zipf } from '../../../helpers/numbers.ts';
import { ruleOf } from '../../../helpers/rules.ts';

const HITS = 200_000;
const CAPACITY = 1_000;

/** Expects the list to be within its bounds of the true counts, and nothing above W/k to be missing. */
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

function add(table: SpaceSaving, name: string, by: number, mayGrow: boolean): void {
  if (!table.addToKnown(name, by)) table.addNew(name, by, mayGrow);
}

const toList = (table: SpaceSaving): TopList => ({
  entries: [...table.entries()],
  total: table.total,
  unlistedAtMost: table.minimum,
});

test('every key above W/k of 200,000 Zipf hits is listed, with errors within the bound', () => {
  const random = numbers(1);
  const table = new SpaceSaving();
  const exact = new Map<string, number>();
  for (let hit = 0; hit < HITS; hit++) {
    const key = zipf(random, 1_000_000);
    exact.set(key, (exact.get(key) ?? 0) + 1);
    add(table, key, 1, table.size < CAPACITY);
  }
  expectBounds(toList(table), exact, HITS / CAPACITY);
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
  expectBounds(mergeTop(tables.map(toList)), exact, 200_000 / 100);
});

test('a million distinct keys take no more than the budget', () => {
  const budget = new ByteBudget(200_000);
  const top = new RotatingTop(CAPACITY, budget);
  for (let hit = 0; hit < 1_000_000; hit++) top.add(`user=${hit}`, 1);
  expect(budget.usedBytes).toBeLessThanOrEqual(200_000 + CAPACITY * 30); // keys that take over a slot may be a little longer
  expect(top.list()).toMatchObject({ total: 1_000_000 });
});

test('a window older than a minute is dropped as a whole', () => {
  const top = new RotatingTop(10, new ByteBudget(10_000));
  top.add('a', 5);
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
    const found = { entries: [{ key: 'user', value }] };
    const verdict = { kind: 'limited', rule: ruleOf({ path: `d.user_${value}` }), found, decision, hits: 1 };
    top.answered({ verdicts: [verdict] } as never); // the only fields that are read
  }
  expect(heapBytes() - before).toBeLessThan(maxBytes);
  expect(top.bytes).toBeLessThanOrEqual(maxBytes);
});

/** An answer with one verdict, under `d.user`. */
const createAnswer = (hits: number, found: object) =>
  ({
    verdicts: [{ kind: 'limited', rule: RULE, found, decision: { code: 'OK' }, hits }],
  }) as never; // the only fields that are read

const RULE = ruleOf({ path: 'd.user' });

const userEntry = (value: string) => ({ entries: [{ key: 'user', value }] });

test('behind 20,000 requests in ten seconds a sample is counted, and no other descriptor is read', async () => {
  const top = new TopKeys(2 ** 20, new Sample(numbers(3)));
  let reads = 0;
  const hit = (value: string): void => {
    const found = {
      get entries() {
        reads++;
        return [{ key: 'user', value }];
      },
    };
    top.answered(createAnswer(3, found));
  };
  const shown = async () => describeTop((await top.lists('hits'))[0] as RuleTop, 10, undefined);
  const hitsOf = async (value: string): Promise<number> =>
    (await shown()).keys.find(({ descriptor }) => descriptor === `user=${value}`)?.hits ?? 0;
  for (let request = 1; request < EXACT; request++) hit('exact');
  expect(await shown()).toMatchObject({ countedOneIn: 1, confidence: 1, keys: [{ hits: 3 * EXACT - 3 }] });
  expect((await shown()).keys[0]).not.toHaveProperty('atMostTooLowBy');
  hit('exact');
  for (let request = 0; request < 100_000; request++) hit(request % 4 === 0 ? 'often' : 'oftener');
  expect(reads).toBeLessThan(EXACT + 8 * SAMPLED);
  const [often, oftener] = [await hitsOf('often'), await hitsOf('oftener')];
  const { countedOneIn, confidence } = await shown();
  expect(confidence).toBe(0.999);
  expect(Math.abs(often + oftener - 300_000)).toBeLessThan(countedOneIn);
  expect(Math.abs(often - 75_000)).toBeLessThan(4 * Math.sqrt(countedOneIn * 75_000));
  expect(await hitsOf('exact')).toBe(3 * EXACT);
});

/** Zipf hits in a minute, every fourth request with five, as counted and as listed. */
async function sampledZipf(processes: number, seed: number) {
  const requests = 250_000 * processes;
  const random = numbers(seed);
  const tables = Array.from({ length: processes }, (_, at) => new TopKeys(2 ** 24, new Sample(numbers(seed + at + 1))));
  const exact = new Map<string, number>();
  let total = 0;
  for (let request = 0; request < requests; request++) {
    if (request > 0 && request % Math.ceil(requests / WINDOW_SLOTS) === 0) for (const table of tables) table.rotate();
    const key = zipf(random, 1_000_000);
    const hits = request % 4 === 3 ? 5 : 1;
    total += hits;
    exact.set(key, (exact.get(key) ?? 0) + hits);
    tables[Math.floor(random() * processes)]?.answered(createAnswer(hits, userEntry(key)));
  }
  const [merged] = mergeRules(await Promise.all(tables.map((table) => table.lists('hits'))));
  return { exact, total, shown: describeTop(merged as RuleTop, 100_000, undefined) };
}

test('sampled by two processes, Zipf hits are within the stated bounds, and every key above W/k is listed', async () => {
  const processes = 2;
  const { exact, total, shown } = await sampledZipf(processes, 4);
  const { keys, countedOneIn, unlistedAtMost } = shown;
  expect(countedOneIn).toBeGreaterThan(4);
  expect(Math.abs(shown.total - total)).toBeLessThan(processes * WINDOW_SLOTS * countedOneIn);
  const listed = new Map(keys.map((one) => [one.entries?.[0]?.value, one]));
  const frequent = [...exact].filter(([, hits]) => hits > total / CAPACITY);
  expect(frequent.length).toBeGreaterThan(50);
  expect(frequent.filter(([key]) => !listed.has(key))).toEqual([]);
  const wrong = [...exact].filter(([key, own]) => {
    const one = listed.get(key);
    if (!one) return own > unlistedAtMost;
    return own > one.hits + (one.atMostTooLowBy ?? 0) || own < one.hits - one.atMostTooHighBy;
  });
  expect(wrong.length).toBeLessThanOrEqual(exact.size * (1 - shown.confidence));
  expect(wrong.filter(([, hits]) => hits > total / CAPACITY)).toEqual([]);
});

test('rules that do not fit share a table, and give memory back when they are quiet', async () => {
  const top = new TopKeys(140_000);
  const decision = { code: 'OVER_LIMIT' };
  const hit = (rule: string, value: string) => {
    const found = userEntry(value);
    const verdict = { kind: 'limited', rule: ruleOf({ path: rule }), found, decision, code: 'OVER_LIMIT', hits: 1 };
    top.answered({ overallCode: 'OVER_LIMIT', verdicts: [verdict] } as never); // the only fields that are read
  };
  for (let rule = 0; rule < 20; rule++) for (let user = 0; user < 100; user++) hit(`d.rule${rule}`, `u${user}`);
  const lists = await top.lists('refusals');
  expect(lists.map(({ rule }) => rule)).toContain(SHARED_TABLE);
  expect(lists.length).toBeGreaterThan(2);
  expect(lists.reduce((sum, { list }) => sum + list.total, 0)).toBe(2_000);
  for (let slot = 0; slot <= WINDOW_SLOTS; slot++) top.rotate();
  expect(await top.lists('hits')).toEqual([]);
  expect(top.bytes).toBe(0);
});
