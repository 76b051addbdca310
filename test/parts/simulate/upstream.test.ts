import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runUpstreamSimulation, type UpstreamFlags } from '../../../src/parts/simulate/run-upstream.ts';

const flags: UpstreamFlags = {
  upstream: { workers: 12, workMs: 100 },
  change: 'halved',
  seed: 1,
  json: false,
};

async function printed(more: Partial<UpstreamFlags>): Promise<string> {
  const lines: string[] = [];
  const print = (text: string): void => void lines.push(text);
  await runUpstreamSimulation({ ...flags, ...more }, { env: {}, print });
  return lines.join('\n');
}

function rulesFile(...limits: readonly string[]): string {
  const nodes = limits.map((limit, at) => `  - { key: k${at}, rate_limit: { ${limit} } }\n`);
  const path = join(mkdtempSync(join(tmpdir(), 'rules-')), 'rules.yaml');
  writeFileSync(path, `domain: demo\ndescriptors:\n${nodes.join('')}`);
  return path;
}

test('an adaptive limit serves what the upstream can, with slots that follow it', async () => {
  const { capacity, limits } = JSON.parse(await printed({ json: true }));
  expect([capacity, limits.length]).toEqual([120, 1]);
  for (const [at, { servedAfter10s, slots }] of limits[0].phases.entries()) {
    const workers = at === 1 ? 6 : 12;
    expect(servedAfter10s).toBeGreaterThan(9 * workers);
    expect(slots[0]).toBeGreaterThanOrEqual(workers);
    expect(slots[1]).toBeLessThan(3 * workers);
  }
});

test('two limits are compared in tables, and equal seeds give equal ones', async () => {
  const few = rulesFile('algorithm: in_flight, requests_per_unit: 6, ttl: 30s');
  const many = rulesFile('algorithm: in_flight, requests_per_unit: 24, ttl: 30s', 'unit: day, requests_per_unit: 1');
  const text = await printed({ rules: few, against: many, clients: 40, change: 'failing' });
  expect(text).toMatch(/^12 workers, 100 ms for a request: 120 requests per second; 40 clients\n/);
  expect(text).toMatch(
    /\n6 in flight for up to 30 s\n {2,}served\/s .*\n {2}before +59.*6 to 6\n {2}failing .*\n {2}after /,
  );
  expect(text).toMatch(/\n24 in flight .*\n.*\n {2}before +1[12]\d.*24 to 24\n/);
  expect(await printed({ rules: few, against: many, clients: 40, change: 'failing' })).toBe(text);
});

test.each([
  [[], 'got 0'],
  [
    ['algorithm: in_flight, requests_per_unit: 6, ttl: 30s', 'algorithm: in_flight, requests_per_unit: 7, ttl: 30s'],
    'got 2',
  ],
])('rules with limits %j are refused', async (limits, found) => {
  const rules = rulesFile('unit: day, requests_per_unit: 1', ...limits);
  await expect(printed({ rules })).rejects.toThrow(`${rules}: expected one limit with algorithm: in_flight, ${found}`);
});
