import { parseMapping } from '../../../src/parts/replay/mapping/mapping.ts';
import type { RecordedRequest } from '../../../src/parts/replay/request.ts';
import { Random } from '../../../src/parts/simulate/random.ts';
import { scenarioNames } from '../../../src/parts/simulate/scenario-names.ts';
import { scenarios } from '../../../src/parts/simulate/scenarios.ts';
import { SIMULATED_MAPPING, START_MS, simulated } from '../../../src/parts/simulate/simulate.ts';

async function requestsOf(name: (typeof scenarioNames)[number], seed: number): Promise<readonly RecordedRequest[]> {
  const parsed = parseMapping('own', SIMULATED_MAPPING);
  if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
  const all: RecordedRequest[] = [];
  for await (const batch of simulated(name, seed, parsed.mapping)) all.push(...batch);
  return all;
}

test.each(scenarioNames)('%s gives labelled requests in order of time', async (name) => {
  const requests = await requestsOf(name, 1);
  expect(requests.length).toBeGreaterThan(10_000);
  expect(requests.every(({ timeMs }, at) => timeMs >= (requests[at - 1]?.timeMs ?? START_MS))).toBe(true);
  expect(requests.every(({ label }) => label !== undefined)).toBe(true);
  expect(requests[0]?.request.descriptors.length).toBeGreaterThanOrEqual(3);
});

test('requests are the same for the same seed, and others for another', async () => {
  const [one, same, other] = await Promise.all([1, 1, 2].map((seed) => requestsOf('nat', seed)));
  expect(JSON.stringify(same) === JSON.stringify(one)).toBe(true);
  expect(JSON.stringify(other) === JSON.stringify(one)).toBe(false);
});

test('legitimate and abusive requests are labelled according to the models', () => {
  const refused = (name: (typeof scenarioNames)[number]): number =>
    [...scenarios[name](new Random(1))].filter(({ label }) => label === 'refuse').length;
  expect(scenarioNames.filter((name) => refused(name) === 0)).toEqual(['nat', 'cron', 'diurnal']);
  expect(refused('scraper')).toBe((30 * 60 * 1_000) / 125);
  expect(refused('retry-storm')).toBe(200 * 12 * 5);
});
