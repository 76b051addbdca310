import { wrapped } from '../../docs/wrap.ts';
import type { Limit } from '../../src/engine/holds/limits.ts';
import { formatProblem } from '../../src/engine/rules/read/problem.ts';
import { loadRules } from '../../src/engine/rules/reload/load.ts';
import { tableHead, tableRow } from '../tables/table.ts';
import { type Judgement, judge } from './judge.ts';
import { type Model, models } from './traffic.ts';

const SEED = 20_261_127;
const NUMBERS = 'unit: minute, requests_per_unit: 120';

/** The limits that are compared, by the rest of their rule. */
const compared = {
  fixed_window: '',
  sliding_window_log: '',
  sliding_window_counter: '',
  sliding_window_buckets: 'buckets: 12',
  token_bucket: 'burst: 120',
  leaky_bucket: 'burst: 12',
} as const;
type Compared = keyof typeof compared;
const names = Object.keys(compared) as readonly Compared[]; // exactly the table's keys

/** What is compared under one kind of traffic. */
export interface Comparison {
  readonly model: Model;
  readonly judgements: Readonly<Record<Compared, Judgement>>;
}

/** Decides the traffic of all models with all algorithms: about five million decisions. */
export function compareAlgorithms(): readonly Comparison[] {
  return models.map((model) => {
    const sources = model.sources(SEED);
    const judged = names.map((name) => [name, judge(readLimit(name), sources)] as const);
    return { model, judgements: Object.fromEntries(judged) as Comparison['judgements'] }; // has every name
  });
}

function readLimit(name: Compared): Limit {
  const more = compared[name] === '' ? '' : `, ${compared[name]}`;
  const text = `domain: accuracy\ndescriptors: [{ key: source, rate_limit: { ${NUMBERS}, algorithm: ${name}${more} } }]\n`;
  const loaded = loadRules([{ path: '', name: 'accuracy.yaml', text }], { mergeDomains: false });
  if (!loaded.ok) throw new Error(loaded.problems.map(formatProblem).join('\n'));
  const limit = [...loaded.rules.rules][0]?.limits[0]?.limit;
  if (!limit) throw new Error(`expected a limit in ${text}`);
  return limit;
}

/** A share in per cent with as many digits as it takes to see it. */
const percent = (share: number): string =>
  share === 0 ? '0 %' : `${share < 0.001 ? (100 * share).toFixed(4) : (100 * share).toFixed(2)} %`;

/** Algorithms whose state is a count of hits in a window, which can be compared with the true one. */
const countsHits = (name: Compared): boolean => !name.endsWith('bucket');

/** The page docs/results/accuracy.md. */
export function accuracyPage(comparisons: readonly Comparison[]): string {
  const rows = comparisons.flatMap(({ model, judgements }) =>
    names.map((name) => {
      const { decisions, wronglyAdmitted, wronglyRefused, ...judged } = judgements[name];
      return tableRow([
        model.name,
        `\`${name}\``,
        percent((wronglyAdmitted + wronglyRefused) / decisions),
        percent(wronglyAdmitted / decisions),
        judged.worst,
        `${judged.innocentRefused} of ${judged.innocent}`,
        countsHits(name) ? percent(judged.meanError) : '',
      ]);
    }),
  );
  const columns = ['traffic', 'algorithm', 'wrong decisions', 'of these admitted', 'worst minute', 'innocent refused'];
  return wrapped(`# Results: accuracy of the algorithms

The sliding window counter is right to within 6 % on even traffic and decides almost every request like an exact log
there, but on bursts it admits far more than the limit in a minute, and it refuses jobs that keep to their limit.

| | of this page |
| --- | --- |
| command | \`npm run proof -- accuracy --write\` |
| limit | 120 a minute for each source; \`${Object.entries(compared)
    .flatMap(([name, more]) => (more === '' ? [] : [`${name}: { ${more} }`]))
    .join('`, `')}\` |
| compared with | an exact log of the same limit, which sees the same requests and counts those that it admits itself |
| seed | ${SEED}: equal runs write equal bytes |

${tableHead([...columns, 'mean error'], 2)}
${rows.join('\n')}

- **Wrong decisions** differ from the log's. **Of these admitted** are those that the log refused.
- **Worst minute** is the largest number of requests of one source that were admitted within any 60 seconds.
- **Innocent** sources are those of which the log refuses nothing; counted are those of which the algorithm refuses a
  request.
- **Mean error** is the mean of |count − true count| / true count over admitted requests: the count that is compared
  with the limit, and what the algorithm admitted in the 60 seconds before. Buckets do not count hits in a window.

## The traffic

${comparisons.map(({ model, judgements }) => `- **${model.name}**: ${model.about}; ${judgements.fixed_window.decisions} requests`).join('\n')}

## What it means

${findings(comparisons)}
`);
}

/** The conclusions, with the figures of the table. */
function findings(comparisons: readonly Comparison[]): string {
  const under = (name: string, algorithm: Compared): Judgement => {
    const found = comparisons.find(({ model }) => model.name === name)?.judgements[algorithm];
    if (!found) throw new Error(`there is no traffic '${name}'`);
    return found;
  };
  const wrong = ({ wronglyAdmitted, wronglyRefused, decisions }: Judgement): string =>
    percent((wronglyAdmitted + wronglyRefused) / decisions);
  const even = under('even', 'sliding_window_counter');
  const bursts = under('bursty', 'sliding_window_counter');
  const parts = under('bursty', 'sliding_window_buckets');
  const bucket = under('bursty', 'token_bucket');
  const jobs = under('cron-like', 'sliding_window_counter');
  const jobParts = under('cron-like', 'sliding_window_buckets');
  return `Cloudflare [published](https://blog.cloudflare.com/counting-things-a-lot-of-different-things/) two figures about its
sliding window counter: a mean error of 6 % in the rate, and 0.003 % of wrong decisions.

- The 6 % are a property of the counter: even traffic reproduces them (${percent(even.meanError)}).
- The 0.003 % are a property of the traffic: decisions are wrong only close to the limit, and most sources are not
  there. Even traffic has ${wrong(even)}, bursts ${wrong(bursts)}.
- On bursts the counter admits up to ${bursts.worst} within a minute that should have 120. \`sliding_window_buckets\` never
  admits more than ${parts.worst}, and is wrong in ${wrong(parts)} of decisions, mostly by refusing; a \`token_bucket\` of the same
  burst admits up to ${bucket.worst}, since its burst is on top of its rate.
- Jobs that start once a minute are refused by the counter in ${jobs.innocentRefused} of ${jobs.innocent} innocent sources, and by the buckets
  in ${jobParts.innocentRefused}: each run still counts when the next one begins. Where such a refusal costs more than a little memory, use a
  \`sliding_window_log\` or a \`token_bucket\` (${under('cron-like', 'token_bucket').innocentRefused} of ${jobs.innocent}).`;
}
