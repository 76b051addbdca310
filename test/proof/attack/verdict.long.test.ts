import { resultRow } from '../../../proof/attack/report.ts';
import type { Result } from '../../../proof/attack/run-attack.ts';
import { findProblems } from '../../../proof/attack/verdict.ts';

const MIB = 1_048_576;
const HEAP_MIB = 256;

const sight = { calls: 500, answered: 500, refused: 0, failures: {}, longestWaitMs: 20, ownStallMs: 5 };
const withstood: Result = {
  ...{ attack: 'a flood', sentBytes: 3 * MIB, connections: 4, growthBytes: 10 * MIB, peakRssBytes: 120 * MIB },
  ...{ stallMs: 10, bystander: sight, valid: sight, keptBytes: MIB, mayKeepBytes: 0, end: undefined, faults: [] },
  comparesAnswers: false,
};

test.each<[readonly string[], Partial<Result>]>([
  [[], {}],
  [['ends'], { end: 'SIGABRT: FATAL ERROR', keptBytes: undefined }],
  [['grows'], { growthBytes: 64 * MIB }],
  [[], { growthBytes: 100 * MIB, mayKeepBytes: 76 * MIB }],
  [['delays'], { bystander: { ...sight, longestWaitMs: 250 } }],
  [[], { bystander: { ...sight, longestWaitMs: 599 }, valid: { ...sight, longestWaitMs: 300 } }],
  [['delays'], { bystander: { ...sight, longestWaitMs: 600 }, valid: { ...sight, longestWaitMs: 300 } }],
  [['delays'], { bystander: { ...sight, longestWaitMs: 300 }, valid: undefined }],
  [['keeps'], { keptBytes: 9 * MIB }],
  [[], { keptBytes: 9 * MIB, mayKeepBytes: MIB }],
  [['RSS'], { peakRssBytes: 512 * MIB }],
  [['fails others'], { bystander: { ...sight, failures: { reset: 1, 'status 13': 1 } } }],
  [[], { bystander: { ...sight, failures: { reset: 2 } }, valid: { ...sight, failures: { reset: 2 } } }],
  [[], { bystander: { ...sight, answered: 100, refused: 400 } }],
  [['starves others'], { bystander: { ...sight, answered: 399 }, comparesAnswers: true }],
  [[], { bystander: { ...sight, answered: 399 }, valid: { ...sight, answered: 490 }, comparesAnswers: true }],
  [['accepts two lengths'], { faults: ['accepts two lengths'] }],
])('the verdict on a result has the problems %j', (problems, changes) => {
  expect(findProblems({ ...withstood, ...changes }, HEAP_MIB)).toEqual(problems);
});

test('a row shows the measurements and the verdict', () => {
  expect(resultRow(withstood, HEAP_MIB)).toBe(
    '| a flood | 3.0 MiB | 4 | 10 | 120 | 20 | 20 | 0 | 0 | 1 | yes | holds |',
  );
  const dead: Result = { ...withstood, sentBytes: 2_048, end: 'SIGABRT', keptBytes: undefined, valid: undefined };
  expect(resultRow(dead, HEAP_MIB)).toBe('| a flood | 2.0 KiB | 4 | 10 | 120 | 20 |  | 0 | 0 |  | no | ends |');
});
