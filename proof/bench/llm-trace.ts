import { parseArgs } from 'node:util';
import { percent } from '../tables/figures.ts';
import { tableHead, tableRow } from '../tables/table.ts';
import { type ReservePolicy, simulate } from './llm-simulation.ts';

export const usage = `Usage: npm run proof -- llm-trace

Runs 100,000 synthetic requests to a language model through the counters of the service, on a clock of its own: 20 tenants
with 100,000 tokens a minute each, which want 1.2 times as much; answers are streamed at 60 tokens a second, and their
lengths are log-normal, with medians from 150 to 1,500 tokens. Prints the refusals and the overspent tokens by the
reservation of a request. The figures are always the same. Takes less than a minute.
`;

const REQUESTS = 100_000;
const policies: readonly ReservePolicy[] = ['p95', 5_000, 'charge at the end'];

export async function run(args: readonly string[]): Promise<void> {
  parseArgs({ args });
  console.log(
    tableHead(['reserved', 'refused', 'of these in vain', 'most overspent, of the limit', 'tokens beyond the limit']),
  );
  for (const policy of policies) {
    const { refused, refusedInVain, maxOverspent, overspentShare } = simulate(REQUESTS, policy);
    const shares = [refused / REQUESTS, refusedInVain / REQUESTS, maxOverspent, overspentShare];
    console.log(tableRow([policyName(policy), ...shares.map((share) => percent(share))]));
  }
}

function policyName(policy: ReservePolicy): string {
  if (policy === 'p95') return '`estimate: p95`';
  return typeof policy === 'number' ? `${policy} each` : `nothing: ${policy}`;
}
