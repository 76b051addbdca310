import { readSettings } from '../../src/settings/settings.ts';
import { settingsTable } from '../../src/settings/table.ts';
import { InvalidSettings, readValues } from '../../src/settings/values.ts';
import fc from '../helpers/property.ts';

const rows = Object.values(settingsTable).flatMap((group) => Object.entries(group));
const names = rows.map(([name]) => name);

const anyValue = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 30 }),
  fc.integer().map(String),
  fc.constantFrom(
    '',
    ' ',
    'true',
    'TRUE',
    '1',
    '0',
    '-1',
    '1e9',
    'NaN',
    'Infinity',
    '1h',
    '-1s',
    '99999999999999999999h',
    'a:b,c',
    ',',
    ':',
    '=',
    'redis://',
    'rediss://:p@h:1/0',
    '[::1]:80',
    '[',
    '%',
    '%zz',
    'a%',
    '\0',
    'http://[',
  ),
);

test('any environment results in settings, or in a problem for each invalid variable', async () => {
  const anyEnvironment = fc.dictionary(fc.constantFrom(...names), anyValue, { maxKeys: 8 });
  await fc.assert(
    fc.asyncProperty(anyEnvironment, async (env) => {
      try {
        expect(await readSettings(env)).toHaveProperty('counters.store');
      } catch (error) {
        if (!(error instanceof InvalidSettings)) throw error;
        for (const problem of error.problems) expect(names.some((name) => problem.includes(name))).toBe(true);
      }
    }),
    { numRuns: 700 },
  );
});

const secrets = rows.filter(([, row]) => 'secret' in row && row.secret).map(([name]) => name);

test('no message about invalid settings contains a secret', () => {
  expect(secrets).toContain('ADMIN_TOKEN');
  const env = Object.fromEntries(names.map((name) => [name, secrets.includes(name) ? 'hunter2:,%\0' : '\0?']));
  expect(() => readValues(env)).toThrow(InvalidSettings);
  try {
    readValues(env);
  } catch (error) {
    expect(String(error)).not.toContain('hunter2');
  }
});
