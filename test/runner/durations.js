import { readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const FILE = join(PROJECT, 'test/runner/durations.json');
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
