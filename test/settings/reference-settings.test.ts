import { readFileSync } from 'node:fs';
import { readSettings } from '../../src/settings/settings.ts';
import { InvalidSettings } from '../../src/settings/values.ts';
import recorded from '../fixtures/reference-settings.json' with { type: 'json' };
import { differences, isAddress, referenceCases } from './reference-values.ts';

const MIGRATION = new URL('../../docs/migrating-from-envoyproxy-ratelimit.md', import.meta.url);

const base = {
  RUNTIME_ROOT: '/tmp',
  RUNTIME_SUBDIRECTORY: '.',
  REDIS_SOCKET_TYPE: 'tcp',
  REDIS_URL: '127.0.0.1:6379',
  USE_STATSD: 'false',
};

async function starts(env: Readonly<Record<string, string>>): Promise<boolean> {
  const filled = Object.entries(env).map(([name, value]) => [
    name,
    value.replaceAll('$REDIS', '6379').replaceAll('$FREE', '8085').replaceAll('$FOLDER', '/tmp'),
  ]);
  try {
    await readSettings({ ...base, ...Object.fromEntries(filled) });
    return true;
  } catch (error) {
    if (error instanceof InvalidSettings) return false;
    throw error;
  }
}

const record: Readonly<Record<string, Readonly<Record<'starts' | 'stops', readonly string[]>>>> = recorded;

test('the values with which envoyproxy/ratelimit starts, and those with which it does not, are recorded', () => {
  const names = new Set(referenceCases.map(({ name }) => name));
  expect(Object.keys(record)).toEqual([...names].sort());
  for (const { name, value } of referenceCases)
    expect([...(record[name]?.starts ?? []), ...(record[name]?.stops ?? [])]).toContain(value);
});

test('Weir starts with the same values, or the migration page says so', async () => {
  const found: string[] = [];
  for (const { name, value, env } of referenceCases) {
    if (isAddress(name)) continue; // they are invalid if nothing can listen there
    const isStarted = await starts(env);
    if (isStarted !== record[name]?.starts.includes(value)) found.push(`${name}=${value}`);
  }
  const known = Object.values(differences).flatMap((settings) =>
    Object.entries(settings).flatMap(([name, values]) =>
      isAddress(name) ? [] : values.map((value) => `${name}=${value}`),
    ),
  );
  expect(found.sort()).toEqual(known.sort());
  const page = readFileSync(MIGRATION, 'utf8');
  for (const row of Object.keys(differences)) expect(page).toContain(`| ${row}`);
});
