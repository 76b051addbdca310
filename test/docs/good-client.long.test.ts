import '../helpers/realm.ts';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { checkFetchOptions } from '../../client/src/outgoing/options.ts';
import { stormTable } from '../../proof/bench/retry-storm.ts';

const page = readFileSync(fileURLToPath(new URL('../../docs/good-client.md', import.meta.url)), 'utf8');

/** Rows with fewer requests than the others, which take minutes to compute. */
const COMPARED = [
  '`weirFetch`',
  '`weirFetch`, and responses are used for 30 s',
  'five retries, 200 ms apart; the server refuses',
];

test('the page about good clients has the figures that npm run proof -- retry-storm prints', async () => {
  const printed = (await stormTable(COMPARED)).trim().split('\n');
  expect(printed).toHaveLength(2 + COMPARED.length);
  expect(page.split('\n')).toEqual(expect.arrayContaining(printed));
});

test('the page about good clients has the defaults of weirFetch', () => {
  const { budget, ...defaults } = checkFetchOptions({});
  for (const [name, value] of Object.entries(defaults))
    if (value !== undefined) expect(page).toMatch(new RegExp(`\`${name}\`.*${value.toLocaleString('en')}`));
  if (budget) expect(page).toContain(`{ ratio: ${budget.ratio}, max: ${budget.max} }`);
});
