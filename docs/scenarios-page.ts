import { type ScenarioName, scenarioNames } from '../src/parts/simulate/scenario-names.ts';
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

/** What each model stands for, and the model with all parameters. */
const models: Readonly<Record<ScenarioName, { readonly summary: string; readonly model: readonly string[] }>> = {
  'flash-sale': {
    summary: 'a sale opens, and everyone reloads the same page; some are bots',
    model: [
      '30 minutes. Visits begin at 0.2 a second, by 2,000 users (Zipf: the second visits half as often as the first), with a',
      'request every 5 s on average and 8 requests on average. At minute 10 the sale opens: 1,500 further users arrive,',
      'after an exponential delay of 45 s on average, and reload `/sale` every 2 s on average, 20 times on average. Ten',
      'bots reload it every 100 ms from 10 s before the opening until 5 minutes after it: these should be refused.',
    ],
  },
  scraper: {
    summary: 'one client walks through a catalogue, from several addresses',
    model: [
      '60 minutes. Visits begin at 0.5 a second, by 1,000 users (Zipf), with a request every 5 s on average and 10 requests',
      'on average. From minute 15 to 45 a scraper fetches `/items/1`, `/items/2` and so on, 8 a second, in turn from four',
      'addresses with one account: it should be refused.',
    ],
  },
  'retry-storm': {
    summary: 'clients that poll retry without a pause while a dependency is down',
    model: [
      '20 minutes. 200 clients poll `/status` every 10 s, each at its own second. From minute 8 to 10 every call fails, and is',
      'repeated five times, 200 ms apart. The retries should be refused, the first calls should pass. Retries do not',
      'depend on what the limit answers: the model shows the load, not the end of the storm.',
    ],
  },
  nat: {
    summary: 'an office behind one address beside users with their own',
    model: [
      '60 minutes. 300 people behind one address and 300 with an address each, all with an account, make visits at 0.5 a',
      'second for each group: a request every 6 s on average, 6 requests on average. All of it should pass.',
    ],
  },
  cron: {
    summary: 'jobs of many clients start at the same second',
    model: [
      '60 minutes. 120 clients start a job at each fifth minute, within 2 s: 40 calls of `/export`, one every 50 ms. Between',
      'jobs, each calls `/export` every 20 s on average. All of it is legitimate, and should pass.',
    ],
  },
  diurnal: {
    summary: 'a day of a service: quiet at night, busy in the afternoon',
    model: [
      '24 hours. Visits begin at 0.02 to 0.4 a second, as a sine whose peak is at 15:00, by 5,000 users (Zipf): a request every',
      '4 s on average, 6 requests on average. All of it should pass.',
    ],
  },
  'credential-stuffing': {
    summary: 'a botnet tries stolen passwords, slowly from each address',
    model: [
      '60 minutes. Users log in at 0.5 a second from 2,000 addresses; one login in ten is tried twice or three times, 5 s',
      'apart, and only its last attempt succeeds. From minute 20 to 40, 400 addresses try one account each 15 s on average,',
      'never the same twice: these fail with 401, and ought to be refused.',
    ],
  },
};

const BEGIN = '<!-- models: begin, written by `npm run docs` -->';
const END = '<!-- models: end -->';

/** docs/replay.md with the descriptions of the models from the code, each with its plot. */
export function withScenarios(page: string): string {
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`expected ${BEGIN} and ${END} in docs/replay.md`);
  const sections = scenarioNames.map((name) => {
    const { summary, model } = models[name];
    const sentence = `${summary[0]?.toUpperCase()}${summary.slice(1)}.`;
    return `### ${name}\n\n${sentence}\n\n${model.join('\n')}\n\n![What each algorithm does in ${name}](scenarios/${name}.svg)\n`;
  });
  return `${page.slice(0, begin + BEGIN.length)}\n\n${[head, ...sections].join('\n')}\n${page.slice(end)}`;
}
