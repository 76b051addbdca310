import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Replicas } from '../../../src/parts/replicas/source.ts';
import { until } from '../../helpers/until.ts';
import { startWeir } from '../../helpers/weir.ts';

const folder = mkdtempSync(join(tmpdir(), 'replicas-'));
const file = join(folder, 'replicas');
afterAll(() => rmSync(folder, { recursive: true }));

const states: string[] = [];
const background = {
  remove: () => {},
  add: () => ({ works: () => void states.push('works'), failed: (error: unknown) => void states.push(String(error)) }),
} as never;

/** A source that reads these numbers one after the other; undefined fails. */
function openScripted(...numbers: readonly (number | undefined)[]) {
  const rest = [...numbers];
  const source = new Replicas({ background }, async () => {
    const next = rest.shift();
    if (next === undefined) throw new Error('no answer');
    return next;
  });
  return source;
}
const shop = { kind: 'dns', name: 'shop.svc' } as const;

test('a number is known after it was asked for and read', async () => {
  const source = openScripted(3);
  expect(source.count(shop)).toBeUndefined();
  expect(await source.learn()).toBe(true);
  expect(source.count(shop)).toBe(3);
  expect(await source.learn()).toBe(false);
  source.close();
});

test('more replicas count at once, fewer after half a minute; a failure changes nothing', async () => {
  const source = openScripted(3, 5, 2, undefined, 2, 2, 2, 2, 2);
  source.count(shop);
  await source.learn();
  const counts: (number | undefined)[] = [];
  const revisions = [source.revision];
  for (let reading = 0; reading < 8; reading++) {
    await source.readAll();
    counts.push(source.count(shop));
    revisions.push(source.revision);
  }
  expect(counts).toEqual([5, 5, 5, 5, 5, 5, 5, 2]);
  expect(revisions).toEqual([0, 1, 1, 1, 1, 1, 1, 1, 2]);
  expect(states).toContain('Error: no answer');
  source.close();
});

test('a reading that hangs stops those of no other place, and is reported', async () => {
  let replicas = 1;
  const source = new Replicas({ background }, ({ name }) =>
    name === 'slow.svc' ? new Promise<number>(() => {}) : Promise.resolve(replicas++),
  );
  const isRead = (number: number) => until(`${number} is read`, () => source.count(shop) === number);
  source.count({ kind: 'dns', name: 'slow.svc' });
  source.count(shop);
  for (const number of [1, 2, 3]) {
    void source.readAll();
    await isRead(number);
  }
  expect(states.at(-2)).toBe('no answer yet');
  expect(source.revision).toBe(3);
  source.close();
});

test('a place that rules do not name any more is not read again, and its state ends', async () => {
  const ended: object[] = [];
  const read: string[] = [];
  const watched = { ...(background as object), remove: (state: object) => void ended.push(state) } as never;
  const source = new Replicas({ background: watched }, async ({ name }) => read.push(name));
  source.count(shop);
  source.count({ kind: 'dns', name: 'gone.svc' });
  await source.learn();
  const pieces = [JSON.stringify([['f'], [[0, { rate_limit: { replicas: { dns: shop.name } } }, 0, 1]]])];
  source.retain([{ name: 'demo', spend: undefined, hash: '', pieces }]);
  await source.readAll();
  expect(read).toEqual([shop.name, 'gone.svc', shop.name]);
  expect(ended).toHaveLength(1);
  source.close();
});

test('rules are searched once, however many places they name', async () => {
  let reads = 0;
  const names = Array.from({ length: 50 }, (_, at) => `host${at}`);
  const nodes = names.map((dns) => [0, { rate_limit: { replicas: { dns } } }, 0, 1]);
  const rules = {
    ...{ name: 'demo', spend: undefined, hash: '' },
    get pieces() {
      reads++;
      return [JSON.stringify([['f'], nodes])];
    },
  };
  const source = openScripted(...Array(names.length).fill(1));
  for (const name of names) source.count({ kind: 'dns', name });
  await source.learn();
  source.retain([rules]);
  expect(reads).toBe(1);
  for (const name of names) expect(source.count({ kind: 'dns', name })).toBe(1);
  source.close();
});

test('the number of places is bounded', async () => {
  const source = openScripted(...Array(200).fill(1));
  for (let at = 0; at < 200; at++) source.count({ kind: 'dns', name: `host${at}` });
  await source.learn();
  expect(source.count({ kind: 'dns', name: 'host99' })).toBe(1);
  expect(source.count({ kind: 'dns', name: 'host100' })).toBeUndefined();
  source.close();
});

test.each([
  ['7\n', 7],
  ['# of shop\n10.0.0.1\n10.0.0.2\n\n', 2],
  ['', 0],
  ['1000000', 1_000_000],
])('a file with %j has %d replicas', async (text, expected) => {
  writeFileSync(file, text);
  const source = new Replicas({ background });
  source.count({ kind: 'file', name: file });
  await source.learn();
  expect(source.count({ kind: 'file', name: file })).toBe(expected);
  source.close();
});

test.each(['/dev/zero', '/'])('%s is not read', async (name) => {
  const source = new Replicas({ background });
  source.count({ kind: 'file', name });
  await source.learn();
  expect(states.at(-1)).toContain(`${name} is not a file of at most 1048576 bytes`);
  source.close();
});

test('localhost, with an address of each family, is one replica', async () => {
  const source = new Replicas({ background });
  source.count({ kind: 'dns', name: 'localhost' });
  await source.learn();
  expect(source.count({ kind: 'dns', name: 'localhost' })).toBe(1);
  source.close();
});

test('a running service follows the file, keeps its counters, and shows the number', async () => {
  writeFileSync(file, '2');
  const rules = join(folder, 'rules.yaml');
  writeFileSync(
    rules,
    `domain: demo\ndescriptors: [{ key: user, rate_limit: { unit: day, per_replica: 2, replicas: { file: ${file} } } }]\n`,
  );
  const weir = await startWeir({ WORKERS: '1', ADMIN_TOKEN: 'operator' }, { args: ['--rules', rules] });
  const body = JSON.stringify({ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: 'ann' }] }] });
  const spend = async () => (await fetch(`http://127.0.0.1:${weir.httpPort}/json`, { method: 'POST', body })).status;
  const explain = async () => {
    const answer = await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/explain`, {
      method: 'POST',
      body,
      headers: { authorization: 'Bearer operator', 'content-type': 'application/json' },
    });
    return JSON.stringify(await answer.json());
  };
  const status = async () => {
    const headers = { authorization: 'Bearer operator' };
    return (await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/status`, { headers })).text();
  };
  try {
    const before: number[] = [];
    for (let hit = 0; hit < 5; hit++) before.push(await spend());
    expect(before).toEqual([200, 200, 200, 200, 429]);
    expect(await explain()).toContain('4 per day (2 for each of 2 replicas)');
    writeFileSync(file, '4');
    await until('the limit follows', async () => (await explain()).includes('8 per day (2 for each of 4 replicas)'));
    const after: number[] = [];
    for (let hit = 0; hit < 4; hit++) after.push(await spend());
    expect(after).toEqual([200, 200, 200, 429]); // the fifth hit counts
    const tried = `${folder}/tried`;
    writeFileSync(tried, '7\n');
    const body = `domain: demo\ndescriptors: [{ key: user, rate_limit: { unit: day, per_replica: 2, replicas: { file: ${tried} } } }]\n`;
    const headers = { authorization: 'Bearer operator', 'content-type': 'application/yaml' };
    const atCandidate = (path: string, init: object = {}) =>
      fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/candidate${path}`, { headers, ...init });
    await until('a candidate that is sent again has the number of its own replicas', async () => {
      await atCandidate('?reason=test', { method: 'POST', body });
      return /"requests_per_unit": ?14\b/.test(await (await atCandidate('/diff')).text());
    });
    await atCandidate('', { method: 'DELETE', body: JSON.stringify({ reason: 'test' }) });
    rmSync(file);
    await until('the failure is shown', async () => (await status()).includes('counting the replicas'));
    writeFileSync(
      rules,
      'domain: demo\ndescriptors: [{ key: user, rate_limit: { unit: day, requests_per_unit: 2 } }]\n',
    );
    await until('it ends with its place', async () => !(await status()).includes('counting the replicas'));
  } finally {
    await weir.stop();
  }
});
