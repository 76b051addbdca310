import '../../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { debugRoutes } from '../../../src/edge/http/debug.ts';
import type { Page } from '../../../src/edge/http/server.ts';
import { createMetrics } from '../../../src/operate/observe/prometheus.ts';
import { referenceCounters } from '../../../src/operate/observe/reference-names.ts';
import { createStatistics, type Statistics } from '../../../src/operate/observe/stats.ts';
import { createReferenceMetrics } from '../../../src/parts/sinks/prometheus-reference.ts';
import { parseExposition } from '../../helpers/exposition.ts';
import { idle, usedCache } from '../../helpers/metrics.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { promtool } from '../../helpers/tools.ts';
import { answerOf, verdictOf } from '../../helpers/verdicts.ts';

const facts = { ...idle, figures: { ...idle.figures, ...usedCache }, openCircuits: new Map([['10.0.0.7:6379', 0]]) };

/** Renders a page of the statistics. */
const pages: Readonly<Record<string, (statistics: Statistics) => Promise<string>>> = {
  '/metrics': async (statistics) => String(createMetrics(statistics).render(facts).body),
  'the page of the reference': async (statistics) => {
    const options = {
      extraTags: new Map([['zone', 'a']]),
      responseTimeAsMilliseconds: false,
      figures: () => facts.figures,
    };
    return String(createReferenceMetrics(statistics, options).render().body);
  },
  '/stats': (statistics) => debugPage('/stats', statistics),
};
const expositions = Object.entries(pages).filter(([name]) => name !== '/stats');

async function debugPage(path: string, statistics: Statistics, rules = rulesFrom('domain: d')): Promise<string> {
  const lastLoad = { ok: true, rules, warnings: [] } as const;
  const routes = debugRoutes({
    rules: () => rules,
    lastLoad: () => lastLoad,
    metrics: async () => ({ contentType: '', body: '' }),
    statistics: async () => referenceCounters(statistics),
  });
  const request = { url: path, headers: {} } as Parameters<NonNullable<ReturnType<typeof routes.get>>['answer']>[0]; // the only properties that it reads
  const page: Page | undefined = await routes.get(path)?.answer(request);
  return String(page?.body ?? '');
}

/** Statistics of `count` rules and as many unknown domains. */
function statisticsOf(count: number, name: (at: number) => string = (at) => `user_${at}`): Statistics {
  const statistics = createStatistics(0.8);
  for (let at = 0; at < count; at++) hit(statistics, name(at));
  return statistics;
}

function hit(statistics: Statistics, name: string): void {
  const verdict = verdictOf([name]);
  if (verdict.kind !== 'limited') return;
  const brought = { ...verdict, rule: { ...verdict.rule, named: 'by_request' } } as const;
  statistics.answered('shop', answerOf([brought, brought]));
  statistics.answered(name, answerOf([{ kind: 'no_domain' }]));
}

describe.each(Object.entries(pages))('%s', (_name, render) => {
  test('stays below 20 MB after 100 MB of long names, and distinguishes them', async () => {
    const statistics = statisticsOf(12_000, (at) => `${'"x\n'.repeat(1_333)}${at}`);
    const body = await render(statistics);
    expect(Buffer.byteLength(body)).toBeLessThan(20_000_000);
    expect(body.length).toBeGreaterThan(1_000_000);
    expect(body).toContain('(other)');
  });
});

describe.each(expositions)('%s', (_name, render) => {
  test('has each series that existed at the start exactly once, while statistics change', async () => {
    const statistics = statisticsOf(3_000);
    let added = 0;
    const timer = setInterval(() => hit(statistics, `later_${added++}`), 0);
    try {
      const rendering = render(statistics);
      hit(statistics, 'user_0');
      hit(statistics, 'later');
      while (added < 3) await new Promise((resolve) => setImmediate(resolve));
      const metrics = parseExposition(await rendering);
      const series = [...metrics.values()].flatMap(({ samples }) => [...samples.keys()]);
      expect(series.filter((one) => one.includes('user_2999'))).not.toEqual([]);
      expect(series.filter((one) => one.includes('later'))).toEqual([]);
    } finally {
      clearInterval(timer);
    }
    expect(parseExposition(await render(statistics)).size).toBeGreaterThan(5);
  });

  test('is accepted by promtool', async () => {
    const statistics = statisticsOf(50, (at) => `"\\\n{é}="${at}`);
    const body = await render(statistics);
    const { code, output } = await check(body);
    // 3: valid, but promtool prefers other names for some metrics of the process and of the reference.
    expect([code === 0 || code === 3, /error/i.test(output)]).toEqual([true, false]);
    expect(output).not.toMatch(/^weir_/m);
    expect((await check(`${body}${body}`)).code).toBe(1);
  });
});

/** The result of `promtool check metrics` for a text. */
async function check(body: string): Promise<{ readonly code: number; readonly output: string }> {
  const path = await promtool();
  return new Promise((resolve) => {
    const child = execFile(path, ['check', 'metrics'], (error, stdout, stderr) =>
      resolve({ code: Number(error?.code ?? 0), output: `${stdout}${stderr}` }),
    );
    child.stdin?.on('error', () => {}); // it may exit before it has read everything
    child.stdin?.end(body);
  });
}
