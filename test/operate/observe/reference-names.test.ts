import { referenceCounters, referenceGauges } from '../../../src/operate/observe/reference-names.ts';
import { asStatisticName } from '../../../src/operate/observe/statistic-name.ts';
import { createStatistics, type Statistics } from '../../../src/operate/observe/stats.ts';
import { asTagValue } from '../../../src/parts/sinks/statsd.ts';
import { idle, usedCache } from '../../helpers/metrics.ts';
import fc from '../../helpers/property.ts';
import { answerOf, verdictOf } from '../../helpers/verdicts.ts';

const PREFIX = 'ratelimit.service.rate_limit.';

/** The counters that are not 0. */
const counted = (statistics: Statistics): Record<string, number> =>
  Object.fromEntries([...referenceCounters(statistics)].filter(([, count]) => count > 0));

describe('names', () => {
  test.each([
    ['/foo:*:bar_10.0.0.1', '/foo_*_bar_10_0_0_1'],
    ['ip_a|b:c', 'ip_a_b_c'],
    ['ip_1.2.3', 'ip_1.2.3'],
    ['ip_1.2.3.4.5', 'ip_1_2_3_4.5'],
    ['1.2.3.4.5.6.7.8', '1_2_3_4.5_6_7_8'],
    ['ip_999.1.1.1', 'ip_999_1_1_1'],
    ['ip_1000.1.1.1', 'ip_1000_1_1_1'],
    ['ip_v10.1.2.3x', 'ip_v10_1_2_3x'],
    ['ip_x.y z/é', 'ip_x.y z/é'],
    ['a\r\nb', 'a__b'],
  ])('%j becomes %j', (name, becomes) => {
    expect(asStatisticName(name)).toBe(becomes);
  });

  const nearlyAddresses = fc
    .array(fc.constantFrom('1', '23', '.', '.', 'a', ':', '|', '\n', 'é'))
    .map((of) => of.join(''));

  test("keep their length, and contain neither StatsD's separators nor an IP address", () => {
    fc.assert(
      fc.property(fc.oneof(nearlyAddresses, fc.string()), (name) => {
        const becomes = asStatisticName(name);
        expect(becomes).toHaveLength(name.length);
        expect(becomes).not.toMatch(/[:|\r\n]|\d+\.\d+\.\d+\.\d+/);
        expect(asStatisticName(becomes)).toBe(becomes);
        for (const [at, char] of [...becomes].entries()) if (char !== '_') expect(char).toBe([...name][at]);
      }),
    );
  });

  test('used as tag values have no dots, either', () => {
    expect(asTagValue('1.2:3|4\n5_é')).toBe('1_2_3_4_5_é');
  });
});

test('hits count under domain and levels, and rules with the same name count together', () => {
  const statistics = createStatistics(0.8);
  statistics.answered('x', answerOf([verdictOf(['a.b']), verdictOf(['a', 'b'])]));
  statistics.answered('x.a', answerOf([verdictOf(['b'], { hits: 12 })]));
  statistics.answered('10.0', answerOf([verdictOf(['0', '1:2'])]));
  expect(counted(statistics)).toEqual({
    [`${PREFIX}x.a.b.total_hits`]: 14,
    [`${PREFIX}x.a.b.within_limit`]: 2,
    [`${PREFIX}x.a.b.near_limit`]: 2,
    [`${PREFIX}x.a.b.over_limit`]: 2,
    [`${PREFIX}10_0_0_1_2.total_hits`]: 1,
    [`${PREFIX}10_0_0_1_2.within_limit`]: 1,
  });
});

test('the service has its own counters', () => {
  const statistics = createStatistics(0.8);
  statistics.answered('no:pe', answerOf([{ kind: 'no_domain' }], { shadowed: true }));
  statistics.answered('no|pe', answerOf([{ kind: 'no_domain' }]));
  statistics.rulesLoaded(true);
  statistics.rulesLoaded(false);
  statistics.rulesLoaded(false);
  statistics.failed(new Error('a bug'));
  for (const method of ['Check', 'ShouldRateLimit', 'Check']) statistics.onCallFinished(method);
  expect(counted(statistics)).toEqual({
    [`${PREFIX}no_pe.domain_not_found`]: 2,
    'ratelimit.service.call.should_rate_limit.service_error': 1,
    'ratelimit.service.config_load_success': 1,
    'ratelimit.service.config_load_error': 2,
    'ratelimit.service.global_shadow_mode': 1,
    'ratelimit_server.Check.total_requests': 2,
    'ratelimit_server.ShouldRateLimit.total_requests': 1,
  });
});

test('the local cache has the gauges of envoyproxy/ratelimit', () => {
  expect(referenceGauges(idle.figures)).toEqual(new Map());
  expect(Object.fromEntries(referenceGauges({ ...idle.figures, ...usedCache }))).toEqual({
    'ratelimit.localcache.averageAccessTime': 0,
    'ratelimit.localcache.entryCount': 7,
    'ratelimit.localcache.evacuateCount': 2,
    'ratelimit.localcache.expiredCount': 3,
    'ratelimit.localcache.hitCount': 4,
    'ratelimit.localcache.lookupCount': 10,
    'ratelimit.localcache.missCount': 6,
    'ratelimit.localcache.overwriteCount': 1,
  });
});
