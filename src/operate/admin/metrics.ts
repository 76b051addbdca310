import type { Overrides } from '../../engine/decide/overrides.ts';
import type { Findings } from '../findings/findings.ts';
import type { InstanceFacts } from '../observe/table.ts';
import { collectReport } from './candidate-operations.ts';
import type { AdminOptions } from './options.ts';

interface OperatorFactsOptions extends Pick<AdminOptions, 'ask' | 'candidate'> {
  readonly overrides: Pick<Overrides, 'all'>;
  readonly findings: Pick<Findings, 'counts'>;
}

/** What metrics show of overrides, the candidate, findings and descriptors without a rule, over all running processes. */
export async function operatorFacts(
  options: OperatorFactsOptions,
): Promise<Pick<InstanceFacts, 'unmatched' | 'findings' | 'overrides' | 'candidate'>> {
  const [unmatched, report] = await Promise.all([options.ask({ kind: 'unmatched' }), collectReport(options, 0)]);
  return {
    unmatched: unmatched.flatMap(({ reply }) => reply.counts),
    findings: options.findings.counts(),
    overrides: [...options.overrides.all()],
    candidate: { isOn: options.candidate.facts.state === 'on', report },
  };
}
