import { attacks } from '../../../proof/attack/attacks.ts';
import { runAttack } from '../../../proof/attack/run-attack.ts';
import { PROJECT } from '../../../proof/attack/service.ts';
import { findProblems } from '../../../proof/attack/verdict.ts';

const HEAP_MIB = 256;

/** The reasons for an attack's success except times, which need an otherwise idle machine. */
const asserted = ['ends', 'grows', 'keeps'];

/** One of each kind; amplification.test.ts varies what clients send, against the same bounds. */
test.each([
  'gzip: 30 messages of 2 million empty descriptors, requests left open',
  'reflection: 30 connections that never read',
  'requests that lack their last byte: 2,000 of 15 KB on each of 10 connections',
  '/json: {} 1.4 million times',
  'quotas: streams of new proxies, each closed after a report of 100 buckets',
])('the service stays alive with bounded memory: %s', async (name) => {
  const attack = attacks.find((one) => one.name === name);
  if (!attack) throw new Error('there is no such attack');
  const options = {
    dir: PROJECT,
    heapMib: HEAP_MIB,
    transport: 'h2',
    normalMs: 1_000,
    attackMs: 1_000,
    compares: false,
  };
  const result = await runAttack(attack, options);
  const problems = findProblems(result, HEAP_MIB).filter((problem) => asserted.includes(problem));
  expect({ ...result, problems }).toMatchObject({ problems: [], end: undefined });
  expect(result.sentBytes).toBeGreaterThan(10_000);
});

test('every attack has a unique name', () => {
  const names = attacks.map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
});
