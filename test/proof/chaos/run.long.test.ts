import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check, timedInvariants } from '../../../proof/chaos/checker.ts';
import { readRunLog } from '../../../proof/chaos/log.ts';
import { describeViolations, toMarkdown } from '../../../proof/chaos/report.ts';
import type { Topology } from '../../../proof/chaos/rules.ts';
import { runChaos } from '../../../proof/chaos/run-chaos.ts';
import { createSchedule, faultKinds, plannedKinds, type ScheduleOptions } from '../../../proof/chaos/schedule.ts';

/** On a busy machine, a reply of a healthy store may take longer than 500 ms. */
const STORE_TIMEOUT_MS = 2_000;

/** Long enough for calls between two faults. */
const calmMs = [500, 1_500] as const;

/** Chosen so that every kind of fault occurs in at least one run. */
const runs: readonly [Topology, ScheduleOptions][] = [
  ['single', { seed: 23_406, lengthMs: 20_000, calmMs }],
  ['sentinel', { seed: 113_919, lengthMs: 12_000, calmMs }],
  ['memcached', { seed: 1, lengthMs: 5_000, calmMs }],
];

test('the runs below have every kind of fault', () => {
  const kinds = runs.flatMap(([topology, options]) => plannedKinds(createSchedule(topology, options)));
  expect(new Set<string>(kinds)).toEqual(faultKinds);
});

test.each(runs)('no invariant that holds on any machine is violated on %s, %j', async (topology, options) => {
  const folder = mkdtempSync(join(tmpdir(), `chaos-${topology}-`)); // kept if an invariant was violated
  await runChaos({ topology, ...options, folder, storeTimeoutMs: STORE_TIMEOUT_MS });
  const log = readRunLog(folder);
  const violations = check(log).filter(({ invariant }) => !timedInvariants.has(invariant));
  expect({ folder, violations: describeViolations(violations) }).toEqual({ folder, violations: '' });
  const planned = plannedKinds(createSchedule(topology, options));
  expect(log.faults.map(({ kind }) => kind).sort()).toEqual(planned.toSorted()); // none was skipped
  for (const kind of planned) expect(toMarkdown(log)).toContain(`| ${kind} | `);
  rmSync(folder, { recursive: true });
});
