import { type ReservePolicy, simulate } from './llm-simulation.ts';
import { showUsage } from './usage.ts';

showUsage(`Usage: npm run llm-trace

Runs 100,000 synthetic requests to a language model through the counters of the service, on a clock of its own: 20 tenants
with 100,000 tokens a minute each, which want 1.2 times as much; answers are streamed at 60 tokens a second, and their
lengths are log-normal, with medians from 150 to 1,500 tokens. Prints the refusals and the overspent tokens by the
reservation of a request. The figures are always the same. Takes less than a minute.
`);

const REQUESTS = 100_000;
const policies: readonly ReservePolicy[] = ['p95', 5_000, 'charge at the end'];
const percent = (part: number): string => `${(100 * part).toFixed(1)} %`;

console.log('| reserved | refused | of these in vain | most overspent, of the limit | tokens beyond the limit |');
console.log('| --- | --- | --- | --- | --- |');
for (const policy of policies) {
  const { refused, refusedInVain, mostOverspent, overspentShare } = simulate(REQUESTS, policy);
  const name =
    policy === 'p95' ? '`estimate: p95`' : typeof policy === 'number' ? `${policy} each` : `nothing: ${policy}`;
  const cells = [name, percent(refused / REQUESTS), percent(refusedInVain / REQUESTS)];
  console.log(`| ${[...cells, percent(mostOverspent), percent(overspentShare)].join(' | ')} |`);
}
