import { every } from '../../base/clock.ts';
import { rfc3339 } from '../../base/times.ts';
import { operation } from '../../operate/admin/api.ts';
import { askPart } from '../../operate/admin/ask-part.ts';
import { type Shown, shownBy, shownEntries } from '../../operate/admin/shown.ts';
import type { OpenOperatorPart } from '../../serve/control/part.ts';
import type { ListedFinding } from './answers.ts';
import type { EvidenceReport } from './evidence.ts';
import { createFindings, type StandingFinding } from './findings.ts';

const INTERVAL_MS = 5_000;

/** Judges the evidence of all processes every five seconds, and lists what it shows. */
export const findingOperations: OpenOperatorPart = (options, _settings, { clock, background }) => {
  const findings = createFindings(() => askPart<EvidenceReport>(options, 'findings', {}), clock);
  const state = background.add('findings', 'comparing what proxies send with the rules');
  return {
    operations: [
      operation('GET /api/v1/findings', {
        summary: 'likely mistakes in the configurations of proxies, such as charges that never arrive',
        need: 'open',
        domains: 'selected',
        answers:
          'Findings, the oldest first, each until it has not been confirmed for a minute. Values in examples are hidden from clients that may not read them.',
        answer: ({ client, scope }) => {
          const shown = shownBy(client.seesValues, options.hash);
          const all = findings.list().filter((one) => scope.hasNamed(one));
          return { findings: all.map((one) => listedFinding(one, shown)) };
        },
      }),
    ],
    findings: findings.list,
    facts: async () => ({ findings: findings.counts() }),
    close: every(INTERVAL_MS, () => void state.run(findings.refresh)),
  };
};

export const listedFinding = (
  { id: _, sinceMs, confirmedAtMs, example, ...open }: StandingFinding,
  shown: Shown,
): ListedFinding => ({
  ...open,
  since: rfc3339(sinceMs),
  confirmed: rfc3339(confirmedAtMs),
  example: shownEntries(example, shown),
});
