import '../helpers/realm.ts';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Envoy, startEnvoy } from '../helpers/envoy.ts';
import { blocksOf, filesOf, rulesOf } from '../helpers/pages/page.ts';
import { loadText } from '../helpers/rules.ts';
import { startWeir } from '../helpers/weir.ts';

const pages = ['get-started', 'protect-a-login', 'plans-and-quotas', 'change-a-limit'] as const;
const textOf = (page: string): string => readFileSync(`docs/${page}.md`, 'utf8');

test.each(['rules', 'reliability', ...pages])('the rules of docs/%s.md load without a warning', (page) => {
  const rules = rulesOf(textOf(page));
  if (page !== 'get-started') expect(rules).not.toEqual([]);
  for (const text of rules) expect(loadText(text)).toMatchObject({ ok: true, warnings: [] });
});

test('docs/monitoring.md queries existing metrics', () => {
  const statistics = textOf('statistics');
  const metrics = new Set(textOf('monitoring').match(/\bweir_\w+/g));
  expect(metrics.size).toBeGreaterThan(4);
  for (const metric of metrics) if (metric !== 'weir_') expect(statistics).toContain(`\`${metric}\``);
});

test('the commands of the README that need a token are the same as in docs/why-refused.md', () => {
  const readme = readFileSync('README.md', 'utf8');
  for (const [command] of readme.matchAll(/^npx weir (?:explain|reset).*$/gm))
    expect(textOf('why-refused')).toContain(`\n${command}\n`);
});

/** The YAML for Envoy on a page, under a comment that names it. */
const envoyPart = (page: string, what: string): string => {
  const start = `# envoy: ${what}\n`;
  const found = blocksOf(textOf(page)).find(({ text }) => text.startsWith(start));
  if (found === undefined) throw new Error(`expected a block of YAML in docs/${page}.md that begins with '${start}'`);
  return found.text.slice(start.length);
};

/** Runs Envoy with the rules of a page, and envoy.yaml changed as the page says. */
async function behindEnvoy(page: string, edit: (config: string) => string, use: (envoy: Envoy) => Promise<void>) {
  const folder = mkdtempSync(join(tmpdir(), 'task-'));
  const [name = '', rules = ''] = [...filesOf(textOf(page))][0] ?? [];
  writeFileSync(join(folder, name), rules);
  const weir = await startWeir({}, { args: ['--rules', join(folder, name)] });
  try {
    const envoy = await startEnvoy(weir.grpcPort, edit);
    try {
      await envoy.waitFor(async () => (await envoy.get('10001', '/')).status === 200); // Envoy has connected to Weir
      await use(envoy);
    } finally {
      await envoy.stop();
    }
  } finally {
    await weir.stop();
    rmSync(folder, { recursive: true });
  }
}

const indented = (text: string, by: number): string => text.trimEnd().replace(/^(?=.)/gm, ' '.repeat(by));

test('the headers of docs/plans-and-quotas.md select the plan', async () => {
  const limits = indented(envoyPart('plans-and-quotas', 'a route by headers'), 22);
  const edit = (config: string) =>
    config
      .replaceAll('domain: demo', 'domain: api')
      .replace(/^ {22}# Each `actions` list.*?(?=^ {22}routes:)/ms, `${limits}\n`);
  await behindEnvoy('plans-and-quotas', edit, async (envoy) => {
    const refusals = async (plan: string): Promise<number> => {
      const headers = { 'x-plan': plan, 'x-customer': 'ann' };
      const sent = Array.from({ length: 60 }, () => fetch(`http://127.0.0.1:${envoy.portOf('10001')}/`, { headers }));
      return (await Promise.all(sent)).filter(({ status }) => status === 429).length;
    };
    expect(await refusals('free')).toBeGreaterThan(20);
    expect(await refusals('pro')).toBe(0);
    expect(await refusals('enterprise')).toBe(0);
    expect(await refusals('none of these')).toBeGreaterThan(30);
  });
});

test('Envoy accepts the JWT descriptors of docs/plans-and-quotas.md', async () => {
  const limits = indented(envoyPart('plans-and-quotas', 'a route by JWT'), 22);
  const edit = (config: string) => config.replace(/^ {22}# Each `actions` list.*?(?=^ {22}routes:)/ms, `${limits}\n`);
  await behindEnvoy('plans-and-quotas', edit, async (envoy) => {
    expect((await envoy.get('10001', '/')).status).toBe(200);
  });
});
