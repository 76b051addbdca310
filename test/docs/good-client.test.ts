import '../helpers/realm.ts';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { checkFetchOptions } from '../../client/src/outgoing/options.ts';
import { stormTable } from '../../proof/bench/retry-storm.ts';

const page = readFileSync(fileURLToPath(new URL('../../docs/good-client.md', import.meta.url)), 'utf8');

/** The simulation only computes; a busy machine takes many times as long. */
const SIMULATION_TIMEOUT_MS = 900_000;

test(
  'the page about good clients has the table that npm run proof -- retry-storm prints',
  async () => expect(page).toContain(await stormTable()),
  SIMULATION_TIMEOUT_MS,
);

test('the page about good clients has the defaults of weirFetch', () => {
  const { budget, ...defaults } = checkFetchOptions({});
  for (const [name, value] of Object.entries(defaults))
    if (value !== undefined) expect(page).toMatch(new RegExp(`\`${name}\`.*${value.toLocaleString('en')}`));
  if (budget) expect(page).toContain(`{ ratio: ${budget.ratio}, max: ${budget.max} }`);
});
