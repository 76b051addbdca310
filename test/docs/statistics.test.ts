import '../helpers/realm.ts';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { noQuotaCounts } from '../../src/edge/rlqs/quota-counts.ts';
import { noPeerCounts } from '../../src/edge/sites/site-counts.ts';
import { candidateMetrics } from '../../src/operate/admin/metrics.ts';
import type { TrialReport } from '../../src/operate/candidate/report.ts';
import { cutName, MAX_NAME_LENGTH, MAX_NAME_LEVELS, MAX_NAMES, OTHER } from '../../src/operate/observe/caller-names.ts';
import { ownUse } from '../../src/operate/observe/process-use.ts';
import { createMetrics } from '../../src/operate/observe/prometheus.ts';
import { createReferenceMetrics } from '../../src/operate/observe/prometheus-reference.ts';
import { referenceCounters, referenceGauges, responseTimeName } from '../../src/operate/observe/reference-names.ts';
import { createStatistics, type Statistics } from '../../src/operate/observe/stats.ts';
import { parseExposition } from '../helpers/exposition.ts';
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

const cache = { counts: { lookups: 9, hits: 9, expired: 9, evicted: 9, overwritten: 9 }, size: () => 9 };

const reserved = { reserved: 9, charged: 8, overrun: 7, held: 6, open: 5, oldestMs: 4 };

/** Statistics without zeros, for a rule `<key>` in a domain `<domain>` and a method `<method>`. */
function everything(): Statistics {
  const statistics = createStatistics(0.8);
  const verdicts = [
    verdictOf(['k'], { hits: 12, shadow: true }),
    verdictOf(['k'], { before: 10, fromCache: true }),
    verdictOf(['k'], { soft: true }),
    verdictOf(['k'], { holds: { held: 2, oldestMs: 1_500, expired: 1 } }),
    verdictOf(['k'], { reservation: { ...reserved, event: 'reserved' } }),
    ...(['committed', 'late', 'unknown', 'repeated'] as const).map((event) =>
      verdictOf(['k'], { reservation: { ...reserved, event } }),
    ),
  ];
  statistics.answered('d', answerOf([...verdicts, { kind: 'no_domain' }], { shadowed: true }));
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

test('docs/statistics.md names every statistic of StatsD', async () => {
  const counters = [...(await referenceCounters(everything())).keys()].map(
    (name) => [withPlaceholders(name), 'counter'] as const,
  );
  const gauges = [...referenceGauges(cache).keys()].map((name) => [name, 'gauge'] as const);
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

test('docs/statistics.md names every Prometheus metric with a name of envoyproxy/ratelimit', async () => {
  const statistics = everything();
  const gauges = () => referenceGauges(cache);
  const metrics = createReferenceMetrics(statistics, {
    extraTags: new Map(),
    responseTimeAsMilliseconds: false,
    gauges,
  });
  expect(metricsIn(String((await metrics.render()).body))).toEqual(
    tableBelow('Prometheus under the names of envoyproxy/ratelimit'),
  );
});

test('docs/statistics.md names every metric of the debug port, with its labels', async () => {
  const store = { openCircuits: () => new Map([['10.0.0.7:6379', 0]]), leased: () => 0, processes: ownUse };
  const metrics = createMetrics(everything(), () => true, store, {
    rules: () => rulesFrom('domain: d\ndescriptors: [{ key: k, rate_limit: { unit: day, requests_per_unit: 5 } }]'),
    lastLoad: () => ({ atMs: 1_000, hash: 'abc', isNewest: true }),
    load: () => ({
      ...{ inFlight: 1, held: 0, connections: 1, watches: 0, latenessMs: 0, callerBytes: 0, callerMaxBytes: 0 },
      quotas: noQuotaCounts(),
      commits: { pending: 0, sent: 0, dropped: 0 },
      sites: {
        peers: [{ site: 'west', ...noPeerCounts(), askedMsAgo: -1, silentMs: 1 }],
        errorRatio: 0,
        errorBound: 0,
      },
    }),
    store: () => ({ isUp: true, reason: undefined, latencyMs: 1, lastSuccessAtMs: 1_000 }),
    memory: () => ({ counters: 1, bytes: 100, evicted: 0 }),
    restarts: () => 0,
    version: '1.2.3',
  });
  metrics.onCallFinished('Check', 0, 1);
  const body = String((await metrics.render()).body);
  expect(metricsIn(body)).toEqual(tableBelow('Prometheus on the debug port'));
  for (const [name, { samples }] of parseExposition(body)) {
    if (!name.startsWith('weir_')) continue;
    const [, labels = ''] = new RegExp(`^\\| \`${name}\` \\| \\w+ \\|(.*)\\|$`, 'm').exec(page) ?? [];
    const [named = ''] = labels.split(':');
    for (const series of samples.keys()) {
      const has = Array.from(series.matchAll(/(\w+)="/g), ([, label]) => label).filter((label) => label !== 'le');
      expect([series, has.sort()]).toEqual([
        series,
        Array.from(named.matchAll(/`(\w+)`/g), ([, label]) => label).sort(),
      ]);
    }
  }
});

test('docs/statistics.md names every metric of a candidate', async () => {
  const tally = { requests: 4, liveRefused: 1, candidateRefused: 2, newlyRefused: 1, newlyPassed: 0 };
  const keys = { list: { entries: [], total: 0, unlistedAtMost: 0 }, count: 0, isAtLeast: false };
  const report: TrialReport = {
    ...{
      sinceMs: 0,
      ruleCount: 1,
      hash: 'abc',
      inFlight: 1,
      inFlightBytes: 100,
      failed: 0,
      withheld: 0,
      evicted: 0,
      moreRules: 0,
    },
    ...{ dropped: { behind: 1, overload: 1 }, totals: tally },
    rules: [{ ...tally, rule: 'd.k', inLive: true, inCandidate: true, newlyRefusedKeys: keys, newlyPassedKeys: keys }],
  };
  const ask = async () => [{ process: 'this process', reply: { kind: 'candidate', report } }];
  const facts = { state: 'on', hash: 'abc' };
  const text = await candidateMetrics({ ask, candidate: { facts } } as never, 'text'); // the only properties that it reads
  expect(metricsIn(text)).toEqual(tableBelow('Candidate'));
  expect(text).toContain('weir_candidate_decisions_total{rule="d.k",live="ok",candidate="ok"} 2\n');
  const off = await candidateMetrics({ ask, candidate: { facts: { state: 'off' } } } as never, 'text');
  expect([...parseExposition(off).keys()]).toEqual(['weir_candidate_on']);
});

test.each([
  [2, 'at 2: passes'],
  [12, 'at 12: passes'],
  [15, 'at 15: refused, and 2 are beyond the limit'],
  [25, 'at 25: refused'],
])('the example in docs/statistics.md at %d hits is right', (before, says) => {
  const statistics = createStatistics(0.8);
  statistics.answered('d', answerOf([verdictOf(['k'], { limit: 20, before, hits: 7 })]));
  const [counts] = statistics.rules();
  const row = [counts?.totalHits, counts?.withinLimit, counts?.nearLimit, counts?.overLimit].join(' | ');
  expect(page).toContain(`| ${says} | ${row} |`);
});

test('the bounds in docs/statistics.md are those of the code', () => {
  const inWords = (count: number) => count.toLocaleString('en-US');
  const [name = ''] = cutName(['x'.repeat(MAX_NAME_LENGTH + 1)]);
  const digest = name.slice(name.indexOf('~') + 1);
  expect(page).toContain(`| ${MAX_NAME_LENGTH} characters, ${MAX_NAME_LEVELS} levels |`);
  expect(page).toContain(`${digest.length} characters of a digest`);
  expect(page).toContain(`| names of limits | ${inWords(MAX_NAMES)} | counted under \`${OTHER}\``);
  expect(page).toContain(`| unknown domains | ${inWords(MAX_NAMES)} | counted under \`${OTHER}\``);
});
