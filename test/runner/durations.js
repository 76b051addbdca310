import { readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const FILE = join(PROJECT, 'test/runner/durations.json');
/** Of a suite that is not a long one, on a quiet machine with two cores. */
export const MAX_SUITE_SECONDS = 20;
/** Shorter suites are not recorded: they do not delay the end of a run. */
const RECORDED_FROM_SECONDS = 3;

/** Durations of the long-running suites in seconds, by absolute path, as measured on a quiet machine with two cores. */
export function recordedSeconds() {
  const recorded = Object.entries(JSON.parse(readFileSync(FILE, 'utf8')));
  return new Map(recorded.map(([path, seconds]) => [join(PROJECT, path), seconds]));
}

/** Replaces the durations of the suites that ran, and forgets suites that are too short now. */
export function recordSeconds(measured) {
  const all = new Map([...recordedSeconds(), ...measured].map(([path, seconds]) => [relative(PROJECT, path), seconds]));
  const kept = [...all].filter(([, seconds]) => seconds >= RECORDED_FROM_SECONDS).sort();
  const rounded = kept.map(([path, seconds]) => [path, Math.round(seconds)]);
  writeFileSync(FILE, `${JSON.stringify(Object.fromEntries(rounded), null, 2)}\n`);
}

/** The suites that take too long for `npm test`, by what is recorded: how long one run takes is the machine's matter. */
export const suitesThatTakeTooLong = (recorded) =>
  longestFirst(recorded).filter(([, seconds]) => seconds > MAX_SUITE_SECONDS);

export const longestFirst = (measured) => [...measured].sort(([, one], [, other]) => other - one);
