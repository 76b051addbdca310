import { type Generator, startGenerator } from '../../../proof/bench/generator/generator.ts';
import { measureShape } from '../../../proof/bench/measure.ts';
import { toMarkdown } from '../../../proof/bench/report.ts';
import { type Shape, shapes } from '../../../proof/bench/shapes.ts';
import { weirOn } from '../../../proof/bench/subjects.ts';

const weir = weirOn('h2');
const short = { roundMs: 100, rounds: 1, warmUpMs: 100 };

let generator: Generator;
beforeAll(() => {
  generator = startGenerator();
});
afterAll(() => generator.stop());

const shapeNamed = (shape: string): Shape => {
  const found = shapes.find(({ name }) => name === shape);
  if (!found) throw new Error(`there is no shape '${shape}'`);
  return found;
};

test('a benchmark measures the service and its Redis', async () => {
  const row = await measureShape(shapeNamed('Redis, two descriptors'), [weir], generator, short);
  const measured = row.measured.get(weir);
  expect(measured).toMatchObject({ serviceUs: expect.any(Number), redisUs: expect.any(Number) });
  expect(toMarkdown([row], [weir])).toMatch(/^\| Redis, two descriptors \| Weir \(h2\) \| \d+ \| [\d.]+ \| [\d.]+ \|/m);
});

test('a benchmark offers all services the same rate if requested', async () => {
  const row = await measureShape(
    { ...shapeNamed('memory, one hot key'), pace: 'half capacity' },
    [weir],
    generator,
    short,
  );
  expect(row.callsPerSecond).toBeGreaterThan(0);
});

test('a benchmark fails if a service answers wrongly', async () => {
  const wrong: Shape = { ...shapeNamed('memory, one hot key'), code: 'OVER_LIMIT' };
  const measuring = measureShape(wrong, [weir], generator, short);
  await expect(measuring).rejects.toThrow(
    /^Weir \(h2\) must answer (\d+) calls with OVER_LIMIT, got \1 OK and 0 OVER_LIMIT$/,
  );
});

test('a benchmark fails if a service has no rules', async () => {
  const measuring = measureShape({ ...shapeNamed('memory, one hot key'), rules: [] }, [weir], generator, short);
  await expect(measuring).rejects.toThrow('Weir (h2) must answer OVER_LIMIT to calls over the limit of a rule');
});
