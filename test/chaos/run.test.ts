import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { check } from '../../chaos/checker.ts';
import { readRunLog } from '../../chaos/log.ts';
import { describeViolations, toMarkdown } from '../../chaos/report.ts';
import { runChaos } from '../../chaos/run-chaos.ts';
import { scheduleOf, type Topology } from '../../chaos/schedule.ts';

const TEST_TIMEOUT_MS = 180_000;

test.each<[Topology, { readonly seed: number; readonly lengthMs: number }]>([
  ['single', { seed: 29, lengthMs: 15_000 }],
  ['redis6', { seed: 133, lengthMs: 15_000 }],
  ['sentinel', { seed: 8, lengthMs: 5_000 }],
  ['memcached', { seed: 81, lengthMs: 8_000 }],
])(
  'no promise is broken on %s, %j',
  async (topology, { seed, lengthMs }) => {
    const folder = mkdtempSync(join(tmpdir(), `chaos-${topology}-`)); // stays where something was broken
    await runChaos({ topology, seed, lengthMs, folder });
    const log = readRunLog(folder);
    expect({ folder, violations: describeViolations(check(log)) }).toEqual({ folder, violations: '' });
    const planned = scheduleOf(topology, seed, lengthMs).flatMap(({ store, instance }) => [
      ...(store ? [store.kind] : []),
      ...(instance ? [instance.kind] : []),
    ]);
    expect(log.faults.map(({ kind }) => kind).sort()).toEqual(planned.sort());
    for (const kind of planned) expect(toMarkdown(log)).toContain(`| ${kind} | `);
    rmSync(folder, { recursive: true });
  },
  TEST_TIMEOUT_MS,
);
