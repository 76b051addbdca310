import { mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import {
  type ComparedRow,
  checkoutAt,
  compareShape,
  conclude,
  isSlower,
  shares,
} from '../../../proof/bench/against.ts';
import { startGenerator } from '../../../proof/bench/generator/generator.ts';
import { comparisonsToMarkdown } from '../../../proof/bench/report.ts';
import { shapes } from '../../../proof/bench/shapes.ts';
import { type Comparison, compare } from '../../../proof/bench/verdict.ts';

const PROJECT = resolve(__dirname, '../../..');
const shape = shapes.find(({ name }) => name === 'Redis, one hot key');
const fixedRate = shapes.find(({ pace }) => pace === 'half capacity');
if (!shape || !fixedRate) throw new Error('the benchmark must have a row with a fixed rate');

const ratioOf = (current: number, repeat: number, other: number): Comparison =>
  compare([{ current: [current], repeat: [repeat], other: [other] }]);
const same = ratioOf(10, 10, 10);
const row = (service: Comparison, withRedis?: Comparison): ComparedRow => ({
  ...{ shape, transport: 'h2', callsPerSecond: undefined, launches: [] },
  ...{ service, withRedis },
});

describe('a checkout to compare with', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'checkout-'));
  });
  const buildIn = (manifest: object) => {
    mkdirSync(join(folder, 'dist'));
    writeFileSync(join(folder, 'dist/main.js'), '');
    writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest));
  };

  test.each(['weir-rls', 'weir'])('is a folder with the package.json of %s, and dist/', (name) => {
    buildIn({ name, version: '0.0.9' });
    expect(checkoutAt(folder)).toEqual({ folder, main: join(folder, 'dist/main.js'), version: '0.0.9' });
  });

  test('must be built', () => {
    expect(() => checkoutAt(folder)).toThrow(
      `--against must name a built checkout of Weir, but there is no ${join(folder, 'dist/main.js')}`,
    );
  });

  test('must be of Weir', () => {
    buildIn({ name: 'other' });
    expect(() => checkoutAt(folder)).toThrow(`${join(folder, 'package.json')} is of 'other'`);
  });

  test('is started again beside two processes of this build for each launch, at one rate', async () => {
    for (const part of ['dist', 'proto', 'package.json', 'node_modules'])
      symlinkSync(join(PROJECT, part), join(folder, part));
    const generator = startGenerator();
    try {
      const options = { roundMs: 200, rounds: 2, warmUpMs: 100 };
      const compared = await compareShape(fixedRate, 'h2', checkoutAt(folder), generator, options);
      const round = { serviceUs: expect.any(Number), redisUs: expect.any(Number) };
      const once = { current: [round], repeat: [round], other: [round] };
      expect(compared).toMatchObject({ launches: [once, once], callsPerSecond: expect.any(Number) });
      expect(comparisonsToMarkdown([compared])).toMatch(/fixed rate of \d+\/s \| h2 \| service and Redis \| [\d.]+ \|/);
    } finally {
      generator.stop();
    }
  }); // starts six services, each with a Redis
});

test.each([
  [36, 6, [6, 6, 6, 6, 6, 6]],
  [10, 4, [2, 3, 2, 3]],
  [3, 4, [1, 1, 1]],
])('%i rounds are divided among %i launches', (rounds, launches, expected) => {
  expect(shares(rounds, launches)).toEqual(expected);
});

test('a row is slower if only the service with its Redis is', () => {
  const slower = ratioOf(11, 11, 10);
  expect(isSlower(row(same, same))).toBe(false);
  expect(isSlower(row(slower, same))).toBe(true);
  expect(isSlower(row(same, slower))).toBe(true);
});

test('the report has the figures and the verdict of each comparison', () => {
  expect(
    comparisonsToMarkdown([row(ratioOf(11, 11, 10), ratioOf(15, 16, 16))])
      .split('\n')
      .slice(2),
  ).toEqual([
    '| Redis, one hot key | h2 | service | 11.00 | 10.00 | 1.100 | 0.0 % | 3.0 % | slower |',
    '| Redis, one hot key | h2 | service and Redis | 15.50 | 16.00 | 0.968 | 6.7 % | 6.7 % | no slower |',
  ]);
});

test('the exit code is 1 if a row is slower, and the conclusion names it', () => {
  expect(conclude([row(same), row(ratioOf(11, 11, 10))])).toEqual({
    text: 'Slower: Redis, one hot key (h2).',
    exitCode: 1,
  });
});

test('the exit code is 0 if no row is slower, and the conclusion names rows whose spread hides small differences', () => {
  expect(conclude([row(same)])).toEqual({ text: 'No row is slower.', exitCode: 0 });
  const { text, exitCode } = conclude([row(same), row(ratioOf(10, 11, 10))]);
  expect(text).toMatch(/^In 1 of 2 rows this build differs from itself by more than 3 %/);
  expect(exitCode).toBe(0);
});
