import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { wrapped } from '../../docs/wrap.ts';
import { type LlmRun, runLlm } from '../../test/helpers/llm-run.ts';
import { table } from '../tables/table.ts';

export const usage = `Usage: npm run proof -- llm [--calls N] [--seconds N] [--write]

Sends calls to language models through a real Envoy with the configuration of docs/llm-tokens.md, in three dialects,
streamed and not, 400 at once, some of which fail or are aborted; then kills Weir and Envoy among others. Prints what was
charged beside what was reported. Fails if a finished call was charged less than it reported, or a budget was exceeded.

  --calls N    default: 100,000
  --seconds N  sends no further calls after this time; default: 3,600
  --write      writes the tables into docs/results/llm.md
  --help       this text
`;

const PAGE = new URL('../../docs/results/llm.md', import.meta.url);
const [BEGIN, END] = ['<!-- results: begin -->', '<!-- results: end -->'];
const AT_ONCE = 400;
/** Of 50 calls, one more is made while processes are killed. */
const KILLED_PART = 0.02;

export async function run(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      calls: { type: 'string', default: '100000' },
      seconds: { type: 'string', default: '3600' },
      write: { type: 'boolean', default: false },
    },
  });
  const calls = Number(values.calls);
  const killedCalls = Math.max(Math.round(calls * KILLED_PART), 100);
  const log = (line: string): void => console.error(line);
  const result = await runLlm({ calls, maxMs: Number(values.seconds) * 1_000, atOnce: AT_ONCE, killedCalls, log });
  const tables = tablesOf(result);
  console.log(tables);
  if (values.write) writePage(tables, args);
  const { wrongTenants, killed, budget } = result;
  if (wrongTenants.length + killed.wrong + killed.unfinishedWrong > 0 || budget.mostCharged > budget.limit)
    throw new Error(`charges differ: ${JSON.stringify({ wrongTenants, killed, budget })}`);
}

const count = (number: number): string => number.toLocaleString('en-US');

function tablesOf(result: LlmRun): string {
  const { calls, seconds, finished, failed, aborted, refused, undecided, wrongTenants } = result;
  const { reported, reserved, charged } = result;
  const { budget, killed, found } = result;
  const sums = table(['', 'number'], 1, [
    ['calls, in three dialects, as JSON and as streams', count(calls)],
    ['seconds', count(Math.round(seconds))],
    ['finished', count(finished)],
    ['ended with 503 by the upstream', count(failed)],
    ['aborted by the client', count(aborted)],
    ['refused', count(refused)],
    ['undecided, since Envoy had no answer of Weir', count(undecided)],
    ['tokens that finished calls reported', count(reported)],
    ['tokens that aborted calls had reserved', count(reserved)],
    ['tokens charged', count(charged)],
    ['tenants whose charge differs from these sums', count(wrongTenants.length)],
    [`highest charge of a tenant with a budget of ${count(budget.limit)}`, count(budget.mostCharged)],
    ['of the calls of these tenants, refused', count(budget.refused)],
  ]);
  const kills = table(['calls while Weir and Envoy were killed', 'number'], 1, [
    ['all, of a tenant each', count(killed.calls)],
    ['finished, charged what they reported', count(killed.exact)],
    ['finished, charged what they had reserved, which was more', count(killed.asReserved)],
    ['finished, charged anything else', count(killed.wrong)],
    ['not finished, charged what they reserved or used', count(killed.unfinishedCharged)],
    ['not finished, charged nothing', count(killed.unfinishedFree)],
    ['not finished, charged anything else', count(killed.unfinishedWrong)],
  ]);
  const rows = [...found].map(([path, after]) => [pathTexts.get(path) ?? path, String(after)]);
  const paths = table(
    ['calls whose usage Envoy does not find', 'seconds from the end of the ttl to the finding'],
    1,
    rows,
  );
  return [sums, kills, paths].join('\n\n');
}

const pathTexts: ReadonlyMap<string, string> = new Map([
  ['aborted', 'the client breaks off'],
  ['compressed', 'the answer is compressed'],
  ['no-usage', 'the answer has no usage'],
  ['killed', 'Envoy is killed'],
]);

function writePage(tables: string, args: readonly string[]): void {
  const page = readFileSync(PAGE, 'utf8');
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`expected ${BEGIN} and ${END} in docs/results/llm.md`);
  const dated = page
    .replace(/^\| date \| .* \|$/m, `| date | ${new Date().toISOString().slice(0, 10)} |`)
    .replace(/^\| command \| .* \|$/m, `| command | \`npm run proof -- llm ${args.join(' ')}\` |`);
  const after = dated.indexOf(BEGIN) + BEGIN.length;
  writeFileSync(PAGE, wrapped(`${dated.slice(0, after)}\n\n${tables}\n\n${dated.slice(dated.indexOf(END))}`));
}
