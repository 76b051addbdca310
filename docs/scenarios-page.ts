import { scenarioNames } from '../src/parts/simulate/scenario-names.ts';
import { scenarios } from '../src/parts/simulate/scenarios.ts';
import { SIMULATED_RULES } from '../src/parts/simulate/simulate.ts';

const head = `\`weir simulate\` tests limits before there is traffic: it generates the requests of a model, lets rules answer them on a
simulated clock, and prints the same [report](#the-report) as \`weir replay\`.

\`\`\`sh
npx weir simulate --scenario flash-sale
npx weir simulate --scenario nat --rules rules.yaml --against proposed.yaml --html report.html
npx weir simulate --scenario scraper --seed 7 --out scraper.ndjson
\`\`\`

| option | meaning |
| --- | --- |
| \`--scenario NAME\` | the model: ${scenarioNames.map((name) => `\`${name}\``).join(', ')} |
| \`--rules PATH\` | the rules, instead of those below |
| \`--against PATH\` | other rules, compared with these |
| \`--seed N\` | other requests of the same model; the same seed always gives the same ones; 1 by default |
| \`--mapping FILE\` | how a request is counted: see [mapping](#mapping). The fields are \`x-user\`, \`remote_address\`, \`:method\`, \`:path\` and \`label\` |
| \`--json\` | the report as JSON |
| \`--html FILE\` | the report as a page |
| \`--out FILE\` | the requests as a recording, for \`weir replay\` |

Without a mapping, a request has the domain \`demo\` and up to four descriptors: (\`user\`), (\`path\`), (\`path\`,
\`remote_address\`) and (\`remote_address\`). Each has a label: what a perfect limit would do. The report counts wrong
refusals (of requests that should pass) and missed ones.

Without \`--rules\`, these rules apply:

\`\`\`yaml
${SIMULATED_RULES}\`\`\`

The models are open: clients do not react to a refusal. Every scenario begins on Monday, 2026-01-05, at 0:00 in UTC.

The plots show one rule with each algorithm, drawn by \`npm run docs -- scenarios\`. \`sliding_window_buckets\` has 6
buckets and \`leaky_bucket\` a burst of 10; everything else has its default ([algorithms.md](algorithms.md)). They compare
algorithms at the same rate. They do not say which limit is right for you.
`;

const BEGIN = '<!-- models: begin, written by `npm run docs` -->';
const END = '<!-- models: end -->';

/** docs/replay.md with the descriptions of the models from the code, each with its plot. */
export function withScenarios(page: string): string {
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`expected ${BEGIN} and ${END} in docs/replay.md`);
  const sections = scenarioNames.map((name) => {
    const { summary, model } = scenarios[name];
    const sentence = `${summary[0]?.toUpperCase()}${summary.slice(1)}.`;
    return `### ${name}\n\n${sentence}\n\n${model.join('\n')}\n\n![What each algorithm does in ${name}](scenarios/${name}.svg)\n`;
  });
  return `${page.slice(0, begin + BEGIN.length)}\n\n${[head, ...sections].join('\n')}\n${page.slice(end)}`;
}
