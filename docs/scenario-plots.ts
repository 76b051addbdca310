import type { RateName } from '../src/engine/algorithms/index.ts';
import { loadRules } from '../src/engine/rules/reload/load.ts';
import { ReplayEngine } from '../src/parts/replay/engine.ts';
import { parseMapping } from '../src/parts/replay/mapping/mapping.ts';
import type { RecordedRequest } from '../src/parts/replay/request.ts';
import type { ScenarioName } from '../src/parts/simulate/scenario-names.ts';
import { START_MS, simulated } from '../src/parts/simulate/simulate.ts';

const SEED = 1;

/** The key by which the rule of a scenario counts, and its numbers. */
interface Limited {
  readonly by: 'user' | 'remote_address';
  readonly requests: number;
  readonly unit: 'minute' | 'hour';
}

const limits: Readonly<Record<ScenarioName, Limited>> = {
  'flash-sale': { by: 'user', requests: 30, unit: 'minute' },
  scraper: { by: 'user', requests: 60, unit: 'minute' },
  'retry-storm': { by: 'user', requests: 10, unit: 'minute' },
  nat: { by: 'remote_address', requests: 120, unit: 'minute' },
  cron: { by: 'user', requests: 30, unit: 'minute' },
  diurnal: { by: 'user', requests: 20, unit: 'minute' },
  'credential-stuffing': { by: 'remote_address', requests: 10, unit: 'hour' },
};

/** The algorithms, with the further keys that they need. */
const algorithms: Readonly<Record<RateName, string>> = {
  fixed_window: '',
  sliding_window_log: '',
  sliding_window_counter: '',
  sliding_window_buckets: ', buckets: 6',
  token_bucket: '',
  leaky_bucket: ', burst: 10',
};

/** The outcomes of requests in one column of time. */
interface Column {
  passed: number;
  missed: number;
  right: number;
  wrong: number;
}
type Fate = keyof Column;

/** In order from bottom to top. */
const fates: readonly Fate[] = ['passed', 'missed', 'right', 'wrong'];
const names: Readonly<Record<Fate, string>> = {
  passed: 'passed, rightly',
  missed: 'passed, ought to be refused',
  right: 'refused, rightly',
  wrong: 'refused, ought to pass',
};
const ink: Readonly<Record<Fate | 'text' | 'pale' | 'line', string>> = {
  ...{ passed: '#b4bfce', missed: '#bf8700', right: '#2b8a57', wrong: '#cf222e' },
  ...{ text: '#1f2328', pale: '#59636e', line: '#d0d7de' },
};

const COLUMNS = 120;

function run(requests: readonly RecordedRequest[], { requests: count, unit, by }: Limited, algorithm: RateName) {
  const text = `domain: demo\ndescriptors: [{key: ${by}, rate_limit: {unit: ${unit}, requests_per_unit: ${count}, algorithm: ${algorithm}${algorithms[algorithm]}}}]`;
  const loaded = loadRules([{ name: 'rules.yaml', path: 'rules.yaml', text }], { mergeDomains: false });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const engine = new ReplayEngine(loaded.rules, {
    ...{ spend: 'each', shadowMode: false, quotaMode: false },
    memory: { maxCounters: 1_000_000, maxBytes: 1_000_000_000 },
  });
  const lengthMs = (requests.at(-1)?.timeMs ?? START_MS) + 1 - START_MS;
  const columns = Array.from({ length: COLUMNS }, (): Column => ({ passed: 0, missed: 0, right: 0, wrong: 0 }));
  for (const request of requests) {
    const refused = engine.answer(request).code === 'OVER_LIMIT';
    const fate = request.label === 'refuse' ? (refused ? 'right' : 'missed') : refused ? 'wrong' : 'passed';
    const column = columns[Math.floor((COLUMNS * (request.timeMs - START_MS)) / lengthMs)];
    if (column) column[fate]++;
  }
  return { columns, lengthMs };
}

const sumOf = (columns: readonly Column[], fate: Fate): number => columns.reduce((sum, one) => sum + one[fate], 0);
const heightOf = (column: Column): number => fates.reduce((sum, fate) => sum + column[fate], 0);
const round = (number: number): number => Math.round(number * 10) / 10;
const shown = (number: number): string => number.toLocaleString('en-US');

const WIDTH = 720;
const PANEL = { width: 336, height: 132, top: 74 };
const GRAPH = { left: 34, top: 38, width: 302, height: 74 };

/** The plot of one scenario, with a panel for each algorithm. */
export async function scenarioPlot(name: ScenarioName): Promise<string> {
  const limited = limits[name];
  const parsed = parseMapping('scenario', mappingBy(limited.by));
  if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
  const requests: RecordedRequest[] = [];
  for await (const batch of simulated(name, SEED, parsed.mapping)) requests.push(...batch);
  const runs = (Object.keys(algorithms) as RateName[]).map((algorithm) => ({
    algorithm,
    ...run(requests, limited, algorithm),
  }));
  const top = Math.max(...runs.flatMap(({ columns }) => columns.map(heightOf)));
  const title = `${name}: ${limited.requests} a${limited.unit === 'hour' ? 'n' : ''} ${limited.unit} for each ${limited.by}`;
  const rows = Math.ceil(runs.length / 2);
  const height = PANEL.top + rows * PANEL.height;
  const results = runs.map(({ algorithm, columns }) => `${algorithm} ${shown(sumOf(columns, 'wrong'))} wrong refusals`);
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" font-family="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif" font-size="11" fill="${ink.text}">`,
    `<title>${title}: ${results.join(', ')}</title>`,
    `<rect width="${WIDTH}" height="${height}" fill="#ffffff"/>`,
    `<text x="8" y="22" font-size="14" font-weight="600">${title}</text>`,
    ...fates.map(
      (fate, at) =>
        `<rect x="${8 + at * 184}" y="38" width="10" height="10" rx="2" fill="${ink[fate]}"/><text x="${24 + at * 184}" y="47" fill="${ink.pale}">${names[fate]}</text>`,
    ),
    ...runs.map((one, at) =>
      panel(one, top, 8 + (at % 2) * (PANEL.width + 32), PANEL.top + Math.floor(at / 2) * PANEL.height),
    ),
    '</svg>',
  ].join('\n')}\n`;
}

function panel(
  { algorithm, columns, lengthMs }: { algorithm: string; columns: readonly Column[]; lengthMs: number },
  top: number,
  x: number,
  y: number,
): string {
  const width = GRAPH.width / COLUMNS;
  const scale = GRAPH.height / top;
  const paths = fates.map((fate) => {
    let path = '';
    for (const [at, column] of columns.entries()) {
      if (column[fate] === 0) continue;
      const below = fates.slice(0, fates.indexOf(fate)).reduce((sum, other) => sum + column[other], 0);
      const bottom = GRAPH.top + GRAPH.height - below * scale;
      path += `M${round(GRAPH.left + at * width)} ${round(bottom)}v${-round(column[fate] * scale)}h${round(width * 0.9)}v${round(column[fate] * scale)}z`;
    }
    return path === '' ? '' : `<path d="${path}" fill="${ink[fate]}"/>`;
  });
  const [wrong, missed] = [sumOf(columns, 'wrong'), sumOf(columns, 'missed')];
  const hours = lengthMs > 2 * 3_600_000;
  const length = hours ? `${Math.round(lengthMs / 3_600_000)} h` : `${Math.round(lengthMs / 60_000)} min`;
  return [
    `<g transform="translate(${x} ${y})">`,
    `<text x="0" y="14" font-size="12" font-weight="600">${algorithm}</text>`,
    `<text x="0" y="29" fill="${ink.pale}">${shown(wrong)} wrong refusals, ${shown(missed)} missed</text>`,
    `<path d="M${GRAPH.left} ${GRAPH.top + GRAPH.height}h${GRAPH.width}" stroke="${ink.line}"/>`,
    `<text x="${GRAPH.left - 4}" y="${GRAPH.top + 8}" text-anchor="end" fill="${ink.pale}">${shown(top)}</text>`,
    ...paths,
    `<text x="${GRAPH.left}" y="${GRAPH.top + GRAPH.height + 12}" fill="${ink.pale}">0</text>`,
    `<text x="${GRAPH.left + GRAPH.width}" y="${GRAPH.top + GRAPH.height + 12}" text-anchor="end" fill="${ink.pale}">${length}</text>`,
    '</g>',
  ]
    .filter((line) => line !== '')
    .join('\n');
}

/** A mapping for only the descriptor that the rule counts. */
const mappingBy = (by: Limited['by']): string => `domain: demo
rate_limits:
  - actions: [${by === 'user' ? '{ request_headers: { header_name: x-user, descriptor_key: user } }' : '{ remote_address: {} }'}]
label: { field: label, allow: allow, refuse: refuse }
`;

/** The path of a plot, relative to the project's root. */
export const pathOf = (name: ScenarioName): string => `docs/scenarios/${name}.svg`;
