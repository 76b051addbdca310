import type { Overrides } from '../../engine/decide/overrides.ts';
import type { InstanceFacts } from '../observe/table.ts';
import { type CandidateOptions, collectReport } from './candidate-operations.ts';

interface OperatorFactsOptions extends Pick<CandidateOptions, 'ask' | 'candidate'> {
  readonly overrides: Pick<Overrides, 'all'>;
}

/** What metrics show of overrides, the candidate and descriptors without a rule, over all running processes. */
export async function operatorFacts(
  options: OperatorFactsOptions,
): Promise<Pick<InstanceFacts, 'unmatched' | 'overrides' | 'candidate'>> {
  const [unmatched, report] = await Promise.all([options.ask({ kind: 'unmatched' }), collectReport(options, 0)]);
  return {
    unmatched: unmatched.flatMap(({ reply }) => reply.report.counts),
    overrides: [...options.overrides.all()],
    candidate: { isOn: options.candidate.facts.state === 'on', report },
  };
}
