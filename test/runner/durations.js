import { readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const FILE = join(PROJECT, 'test/runner/durations.json');
/** Of a suite that is not a long one, on a quiet machine with two cores. */
export const MAX_SUITE_SECONDS = 20;
/** The time of a suite in one run may differ from that in another by this factor. */
const NOISE = 1.5;
/** Fewer recorded suites than this do not show how busy the machine is: the run is of a few chosen suites. */
const MIN_COMPARED = 20;
/** Shorter suites are not recorded: they neither delay the end of a run nor show how busy the machine is. */
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

/**
 * Suites whose recorded duration is more than MAX_SUITE_SECONDS, and those that took clearly longer in this run. Measured
 * durations are divided by the factor by which half of the recorded suites took longer than recorded, so that a busy
 * machine changes nothing.
 *
 * @param measured  [path, seconds] of each suite
 * @param recorded  seconds by path
 */
export function suitesThatTakeTooLong(measured, recorded) {
  const factors = measured.filter(([path]) => recorded.has(path)).map(([path, now]) => now / recorded.get(path));
  if (factors.length < MIN_COMPARED) return [];
  const slowdown = Math.max(1, factors.sort((one, other) => one - other)[Math.floor(factors.length / 2)]);
  return longestFirst(measured).filter(
    ([path, now]) => now / slowdown > MAX_SUITE_SECONDS * NOISE || (recorded.get(path) ?? 0) > MAX_SUITE_SECONDS,
  );
}

export const longestFirst = (measured) => [...measured].sort(([, one], [, other]) => other - one);
