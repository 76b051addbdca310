import { run as runBench } from '../../../proof/bench/decisions.ts';
import { findProgram } from '../../../proof/bench/peers/peer.ts';
import { peers } from '../../../proof/bench/peers/peers.ts';
import { toMarkdown } from '../../../proof/bench/report.ts';
import { shapes } from '../../../proof/bench/shapes.ts';
import { weirOn } from '../../../proof/bench/subjects.ts';
import { run } from '../../../proof/processes/run-program.ts';

const node = process.execPath;
const absent = { variable: 'PEER_BIN', cached: '/nonexistent/peer' };

test("a peer's variable takes precedence over the cache", () => {
  expect(findProgram({ ...absent, cached: node }, { PEER_BIN: '/bin/sh' })).toBe('/bin/sh');
  expect(findProgram({ ...absent, cached: node }, {})).toBe(node);
  expect(findProgram(absent, {})).toBeUndefined();
});

test('a variable that names no program is an error, even with a program in the cache', () => {
  expect(() => findProgram({ ...absent, cached: node }, { PEER_BIN: '/nonexistent/other' })).toThrow(
    "PEER_BIN must be the path of a program, got '/nonexistent/other'",
  );
});

test('the ratios of a missing peer are reported as not measured', () => {
  const weir = weirOn('h2');
  const measurement = {
    ...{ callsPerSecond: 50_000, serviceUs: 8, redisUs: 3, p50Ms: 1, p99Ms: 2 },
    ...{ memoryBytes: 1024 * 1024, generatorLoad: 0.5 },
  };
  const rows = shapes
    .filter(({ name }) => name === 'Redis, one hot key')
    .map((shape) => ({
      ...{ shape, callsPerSecond: undefined },
      ...{ measured: new Map([[weir, measurement]]), rounds: new Map() },
    }));
  const missing = peers.map((peer) => peer.subjectOf(peer.cached));
  const lines = toMarkdown(rows, [weir], missing).split('\n').slice(2);
  expect(lines).toEqual([
    '| Redis, one hot key | Weir (h2) | 50000 | 8.0 | 3.0 | 11.0 | 1.00 | 2.00 | 1 | 50 % |  |',
    `| Redis, one hot key | envoyproxy/ratelimit |${' not measured |'.repeat(9)}`, // Limitador is measured in memory only
  ]);
});

test('the error of a failed program has the reason', async () => {
  const script = 'console.error("first"); console.error("second"); process.exit(3)';
  await expect(run(node, ['-e', script], { limitMs: 20_000 })).rejects.toThrow(/: exit code 3\nfirst\nsecond$/);
  await expect(run('/nonexistent/go', ['build'], { limitMs: 20_000 })).rejects.toThrow(
    '/nonexistent/go build: spawn /nonexistent/go ENOENT',
  );
});

test('a program that takes too long is ended', async () => {
  const forever = ['-e', 'setInterval(() => {}, 1000)'];
  await expect(run(node, forever, { limitMs: 200 })).rejects.toThrow(/ended by SIGTERM after \d+ s$/);
});

test.each([
  [['--against', '/nonexistent'], 'there is no /nonexistent/dist/main.js'],
  [['--against', '.', '--rounds', '3'], '--rounds must be at least 6 with --against, got 3'],
  [['--against', '.', '--levers'], '--levers cannot be combined with --against'],
  [['--seconds', '0'], "--seconds must be a number from 0.1 to 999, got '0'"],
])('npm run bench refuses %j', async (args, message) => {
  await expect(runBench(args)).rejects.toThrow(message);
});
