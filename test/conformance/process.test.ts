import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { processDeviations } from './deviations.ts';
import { Lane, playInProcess } from './process.ts';
import type { RecordedCase } from './recorded-case.ts';

/** Cases wait for files to be polled, for windows and for statistics most of the time, so that several are played at once. */
const LANES = 3;

const lanes: Lane[] = [];
const free: Lane[] = [];
const waiting: ((lane: Lane) => void)[] = [];
beforeAll(async () => {
  lanes.push(...(await Promise.all(Array.from({ length: LANES }, () => Lane.open()))));
  free.push(...lanes);
});
afterAll(() => Promise.all(lanes.map((lane) => lane.close())));

/** Runs with a lane that nobody else has meanwhile. */
async function onLane<T>(run: (lane: Lane) => Promise<T>): Promise<T> {
  const lane = free.shift() ?? (await new Promise<Lane>((resolve) => waiting.push(resolve)));
  try {
    return await run(lane);
  } finally {
    const next = waiting.shift();
    if (next) next(lane);
    else free.push(lane);
  }
}

const files = readdirSync(__dirname).filter((name) => name.endsWith('.json'));

describe.each(files)('%s', (file) => {
  const { configs = {}, cases } = JSON.parse(readFileSync(join(__dirname, file), 'utf8')) as {
    configs?: Record<string, string>;
    cases: RecordedCase[];
  };

  test.concurrent.each(cases.map((recorded) => [recorded.name, recorded] as const))(
    '%s',
    async (name, recorded) => {
      const reason = processDeviations[name];
      const differences = await onLane((lane) =>
        playInProcess(recorded, configs, lane, { untilFirst: reason !== undefined }),
      );
      if (reason === undefined) expect(differences).toEqual([]);
      else expect({ reason, differences }).not.toEqual({ reason, differences: [] });
    },
    120_000,
  );
});
