import '../helpers/realm.ts';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CounterKey } from '../../src/engine/backends/key.ts';
import { createMetrics } from '../../src/operate/observe/prometheus.ts';
import { referenceCounters, referenceGauges, responseTimeName } from '../../src/operate/observe/reference-names.ts';
import { noPeerCounts } from '../../src/operate/observe/site-counts.ts';
import { createStatistics, type Statistics } from '../../src/operate/observe/stats.ts';
import { type InstanceFacts, partFigures } from '../../src/operate/observe/table.ts';
import { createReferenceMetrics } from '../../src/parts/sinks/prometheus-reference.ts';
import { parseExposition } from '../helpers/exposition.ts';
import { idle, usedCache } from '../helpers/metrics.ts';
import { rulesFrom } from '../helpers/rules.ts';
import { answerOf, verdictOf } from '../helpers/verdicts.ts';

const page = readFileSync(join(__dirname, '../../docs/statistics.md'), 'utf8');

/** The first two columns of the tables below this title, up to the next title, sorted by name. */
function tableBelow(title: string): readonly (readonly [name: string, kind: string])[] {
  const section = page.split(/^## /m).find((text) => text.startsWith(`${title}\n`));
  if (section === undefined) throw new Error(`expected a section '${title}'`);
  return sorted(
    Array.from(section.matchAll(/^\| `([^`]+)` \| (\w+) \|/gm), ([, name = '', kind = '']) => [name, kind]),
  );
}

const sorted = <R extends readonly [string, string]>(rows: readonly R[]): readonly R[] =>
  [...rows].sort(([one], [other]) => (one < other ? -1 : 1));

const adapted = { limit: 3, move: 'grown', holdMs: 12, baselineMs: 11 } as const;
const reserved = { reserved: 9, charged: 8, overrun: 7, lapsed: 3, lapses: 1, usage: 8, held: 6, open: 5, oldestMs: 4 };

/** Statistics without zeros, for a rule `<key>` in a domain `<domain>` and a method `<method>`. */
function everything(): Statistics {
  const statistics = createStatistics(0.8);
  const verdicts = [
    verdictOf(['k'], { hits: 12, shadow: true }),
    verdictOf(['k'], { before: 10, fromCache: true }),
    verdictOf(['k'], { soft: true }),
    verdictOf(['k'], { holds: { held: 2, oldestMs: 1_500, expired: 1, adapted } }),
    verdictOf(['k'], { reservation: { ...reserved, event: 'reserved' } }),
    ...(['committed', 'late', 'unknown', 'repeated'] as const).map((event) =>
      verdictOf(['k'], { reservation: { ...reserved, event } }),
    ),
  ];
  statistics.answered('d', answerOf([...verdicts, { kind: 'no_domain' }], { shadowed: true }));
  const [passed] = verdicts;
  if (passed?.kind !== 'limited') throw new Error('a verdict without a limit');
  const key = 'k' as CounterKey; // no store reads it
  statistics.notified({ ...passed, domain: 'd', key, entries: [], limit: passed });
  statistics.answered('d', answerOf([], { overallCode: 'OVER_LIMIT' }));
  statistics.failed(new Error('a bug'));
  statistics.rulesLoaded(true);
  statistics.rulesLoaded(false);
  statistics.onCallFinished('<method>');
  statistics.connectionFailed('PROTOCOL_ERROR');
  statistics.answered('d', answerOf([verdictOf(['k'], { degraded: 'allow' })]));
  return statistics;
}

/** A name as the page writes it. */
const withPlaceholders = (name: string): string =>
  name
    .replace('ratelimit.service.rate_limit.d.k.', 'ratelimit.service.rate_limit.<key>.')
    .replace('.d.domain_not_found', '.<domain>.domain_not_found')
    .replace('_d_domain_not_found', '_<domain>_domain_not_found');

const figures = { ...idle.figures, ...usedCache };

test('docs/statistics.md names every statistic of StatsD', () => {
  const counters = [...referenceCounters(everything()).keys()].map(
    (name) => [withPlaceholders(name), 'counter'] as const,
  );
  const gauges = [...referenceGauges(figures).keys()].map((name) => [name, 'gauge'] as const);
  const named = [...counters, ...gauges, [responseTimeName('<method>'), 'timer'] as const];
  expect(tableBelow('StatsD, DogStatsD and `/stats`')).toEqual(sorted(named));
});

/** The metrics of an exposition, except those of the process. */
const metricsIn = (text: string) =>
  sorted(
    [...parseExposition(text)]
      .filter(([name]) => !/^(process|nodejs)_/.test(name))
      .map(([name, { type }]) => [withPlaceholders(name), type] as const),
  );

test('docs/statistics.md names every Prometheus metric with a name of envoyproxy/ratelimit', () => {
  const options = { extraTags: new Map(), responseTimeAsMilliseconds: false, figures: () => figures };
  const metrics = createReferenceMetrics(everything(), options);
  expect(metricsIn(String(metrics.render().body))).toEqual(
    tableBelow('Prometheus under the names of envoyproxy/ratelimit'),
  );
});

const tally = { requests: 4, liveRefused: 1, candidateRefused: 2, newlyRefused: 1, newlyPassed: 0 };

/** An instance with everything that metrics show. */
const facts: InstanceFacts = {
  ...{ ...idle, openCircuits: new Map([['10.0.0.7:6379', 0]]) },
  figures: { ...figures, ...Object.fromEntries(Object.keys(partFigures).map((name) => [name, 1])) },
  rules: rulesFrom(`
    domain: d
    descriptors:
      - { key: k, rate_limit: { unit: day, requests_per_unit: 5, active: { hours: '00:00-12:00' } } }
  `),
  inForce: { atMs: 1_000, hash: 'abc', isNewest: true },
  sites: { peers: [{ site: 'west', ...noPeerCounts(), askedMsAgo: -1, silentMs: 1 }], errorRatio: 0, errorBound: 0 },
  store: { isUp: true, reason: undefined, latencyMs: 1, lastSuccessAtMs: 1_000 },
  unmatched: [{ domain: 'd', reason: 'no_such_key', count: 1 }],
  overrides: [{ domain: 'd', effect: { kind: 'block' } }],
  candidate: {
    isOn: true,
    report: { inFlight: 1, failed: 0, dropped: { behind: 1, overload: 1 }, rules: [{ rule: 'd.k', ...tally }] },
  },
};

test('docs/statistics.md names every metric of the debug port, with its labels', () => {
  const metrics = createMetrics(everything());
  metrics.onCallFinished('Check', 0, 1);
  const body = String(metrics.render(facts).body);
  expect(metricsIn(body)).toEqual(tableBelow('Prometheus on the debug port'));
  for (const [name, { samples }] of parseExposition(body)) {
    if (!name.startsWith('weir_')) continue;
    const [, named = ''] = new RegExp(`^\\| \`${name}\` \\| \\w+ \\| ([^|]*) \\|`, 'm').exec(page) ?? [];
    for (const series of samples.keys()) {
      const has = Array.from(series.matchAll(/(\w+)="/g), ([, label]) => label).filter((label) => label !== 'le');
      expect([series, has.sort()]).toEqual([
        series,
        Array.from(named.matchAll(/`(\w+)`/g), ([, label]) => label).sort(),
      ]);
    }
  }
});

test('without a candidate, only weir_candidate_on is shown of it', () => {
  const text = (some: Partial<InstanceFacts>) => String(createMetrics(everything()).render({ ...facts, ...some }).body);
  expect(text({})).toContain('weir_candidate_decisions_total{rule="d.k",live="ok",candidate="ok"} 2\n');
  const off = parseExposition(text({ candidate: idle.candidate }));
  expect([...off.keys()].filter((name) => name.includes('candidate'))).toEqual(['weir_candidate_on']);
});
