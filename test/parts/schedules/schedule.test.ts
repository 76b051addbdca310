import '../../helpers/realm.ts';
import { IANAZone } from 'luxon';
import { describeRule, ruleAsJson, scheduleAsJson } from '../../../src/edge/listing/describe.ts';
import { describeLimit } from '../../../src/engine/rules/match/describe-limit.ts';
import { Problems } from '../../../src/engine/rules/read/problem.ts';
import { readText } from '../../../src/engine/rules/read/read.ts';
import { RulesInForce } from '../../../src/engine/rules/reload/in-force.ts';
import { checkBlocks } from '../../../src/engine/rules/reload/load.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { loadText, rulesFrom } from '../../helpers/rules.ts';

const at = (text: string): number => Date.parse(text);

const nodeOf = (rest: string): string => `domain: demo\ndescriptors:\n  - key: user\n${rest}`;

const ruleFrom = (rest: string) => {
  const [rule] = rulesFrom(nodeOf(rest)).rules;
  if (!rule) throw new Error('there is no rule');
  return rule;
};

const problemsOf = (rest: string, overlay?: string): readonly string[] => {
  const laid = overlay === undefined ? {} : { overlay: [{ name: 'overlay.yaml', text: nodeOf(overlay) }] };
  const loaded = loadText(nodeOf(rest), laid);
  return (loaded.ok ? loaded.warnings : loaded.problems).map(({ line, message }) => `${line}: ${message}`);
};

const NIGHTLY = `    rate_limit:
      unit: minute
      requests_per_unit: 100
      algorithm: token_bucket
      burst: 200
      schedule:
        - { active: { from: 2026-11-27T00:00, until: 2026-12-01T00:00, timezone: Europe/Berlin }, requests_per_unit: 500, burst: 900 }
        - { active: { hours: 22:00-06:00, timezone: Europe/Berlin }, requests_per_unit: 1000 }
        - { active: { days: [sat, sun] }, unlimited: true }
`;

const inForceAt = (rest: string, time: string): readonly string[] =>
  ruleFrom(rest)
    .schedule?.at(at(time))
    .map(({ limit, label, endsAtMs }) => {
      const burst = 'burst' in limit ? ` burst ${limit.burst}` : '';
      const until = endsAtMs === undefined ? '' : ` until ${new Date(endsAtMs).toISOString().slice(0, 16)}`;
      return `${describeLimit({ limit, label })}${burst}${until}`;
    }) ?? [];

test.each([
  ['2026-11-23T12:00Z', ['100 per minute by token_bucket burst 200 until 2026-11-23T21:00']],
  ['2026-11-23T21:00Z', ['1000 per minute by token_bucket burst 200']], // less capacity afterwards, so no `until`
  ['2026-11-24T04:59Z', ['1000 per minute by token_bucket burst 200']],
  ['2026-11-26T23:00Z', ['500 per minute by token_bucket burst 900 until 2026-11-30T23:00']], // takes precedence over the night
  ['2026-11-22T12:00Z', []], // a Sunday
  ['2026-11-22T22:00Z', ['1000 per minute by token_bucket burst 200']],
])('at %s the first limit that is active applies, otherwise the one without times: %j', (time, expected) => {
  expect(inForceAt(NIGHTLY, time)).toEqual(expected);
});

test('a limit ends at a change that only enlarges its burst', () => {
  const sunday = 'schedule: [{ active: { days: sun }, burst: 300 }]';
  const limit = `{ unit: minute, requests_per_unit: 100, algorithm: token_bucket, burst: 200, ${sunday} }`;
  expect(inForceAt(`    rate_limit: ${limit}\n`, '2026-11-28T12:00Z')).toEqual([
    '100 per minute by token_bucket burst 200 until 2026-11-29T00:00',
  ]);
});

test('limits of a schedule inherit properties that they do not set', () => {
  expect(describeRule(ruleFrom(NIGHTLY)).split('\n')).toEqual([
    'demo.user: unit=MINUTE requests_per_unit=100, shadow_mode: false, quota_mode: false, algorithm: token_bucket, burst: 200, unlimited: { days: [sat, sun], timezone: UTC }',
    'demo.user: unit=MINUTE requests_per_unit=500, shadow_mode: false, quota_mode: false, algorithm: token_bucket, burst: 900, active: { from: 2026-11-27T00:00, until: 2026-12-01T00:00, timezone: Europe/Berlin }',
    'demo.user: unit=MINUTE requests_per_unit=1000, shadow_mode: false, quota_mode: false, algorithm: token_bucket, burst: 200, active: { hours: 22:00-06:00, timezone: Europe/Berlin }',
  ]);
});

test('a rule in JSON has every entry of its schedule, in order', () => {
  expect(ruleAsJson(ruleFrom(NIGHTLY))).toMatchObject({
    times: [
      [
        { active: 'from: 2026-11-27T00:00, until: 2026-12-01T00:00, timezone: Europe/Berlin', limit: 1 },
        { active: 'hours: 22:00-06:00, timezone: Europe/Berlin', limit: 2 },
        { active: 'days: [sat, sun], timezone: UTC', unlimited: true },
        { limit: 0 },
      ],
    ],
  });
  expect(ruleAsJson(ruleFrom('    rate_limit: { unit: minute, requests_per_unit: 5 }\n'))).not.toHaveProperty('times');
});

test('keys of the limit that do not apply to another algorithm or window are left out', () => {
  const rest = `    rate_limit:
      unit: minute
      requests_per_unit: 10
      algorithm: sliding_window_buckets
      buckets: 6
      schedule: [{ active: { days: sat }, algorithm: fixed_window, window: 90s }]
`;
  const [, scheduled] = ruleFrom(rest).limits;
  expect(scheduled?.limit).toMatchObject({ algorithm: 'fixed_window', windowMs: 90_000, requestsPerUnit: 10 });
});

describe('a limit with active', () => {
  const rest = `    rate_limits:
      - { unit: minute, requests_per_unit: 5 }
      - { name: office, unit: hour, requests_per_unit: 50, active: { days: mon-fri, hours: [09:00-12:00, 13:00-17:00] } }
`;
  test('applies beside the others at its times, and has no effect at other times', () => {
    expect(inForceAt(rest, '2026-11-23T09:00Z')).toEqual(['5 per minute', '50 per hour until 2026-11-23T12:00']);
    expect(inForceAt(rest, '2026-11-23T12:30Z')).toEqual(['5 per minute']);
  });

  test('has its times in JSON, with the limits that apply now and when others will', () => {
    const rule = ruleFrom(rest);
    expect(ruleAsJson(rule)).toMatchObject({
      limits: [{}, { active: 'days: mon-fri, hours: [09:00-12:00, 13:00-17:00], timezone: UTC', limit: 1 }],
    });
    expect(scheduleAsJson(rule, at('2026-11-23T12:30Z'))).toEqual({
      schedule: { now: [0], changes_at_ms: at('2026-11-23T13:00Z') },
    });
    expect(scheduleAsJson(ruleFrom('    rate_limit: { unit: minute, requests_per_unit: 5 }\n'), 0)).toEqual({});
  });
});

describe('counters', () => {
  const countersOf = (rest: string): readonly string[] => ruleFrom(rest).limits.map(({ limit }) => limit.counter);

  test('limits of one schedule with the same algorithm and window share counters, but separate limits do not', () => {
    const rest = `    rate_limits:
      - { unit: minute, requests_per_unit: 5, schedule: [{ active: { days: sun }, requests_per_unit: 9 }, { active: { days: sat }, unit: hour }] }
      - { unit: minute, requests_per_unit: 7, schedule: [{ active: { days: sun }, requests_per_unit: 8 }] }
`;
    expect(countersOf(rest)).toEqual([
      'fixed_window.2|60000',
      'fixed_window.2|60000#1',
      'fixed_window.2|60000',
      'fixed_window.2|3600000',
      'fixed_window.2|60000#1',
    ]);
  });

  test('an entry of a schedule changes no counter of the limits beside it', () => {
    const limits = (schedule: string): string => `    rate_limits:
      - { unit: minute, requests_per_unit: 5${schedule} }
      - { unit: hour, requests_per_unit: 70 }
      - { unit: hour, requests_per_unit: 80 }
`;
    const own = ['fixed_window.2|60000', 'fixed_window.2|3600000', 'fixed_window.2|3600000#1'];
    expect(countersOf(limits(''))).toEqual(own);
    expect(countersOf(limits(', schedule: [{ active: { days: sun }, unit: hour }]'))).toEqual([
      ...own,
      'fixed_window.2|3600000#2',
    ]);
  });

  test('on_change: reset names counters after the numbers of the limit, identically on every instance', () => {
    const limit = (numbers: string): readonly string[] => countersOf(`    rate_limit: { unit: minute, ${numbers} }\n`);
    const [kept] = limit('requests_per_unit: 5, on_change: keep');
    const [reset = ''] = limit('requests_per_unit: 5, on_change: reset');
    expect(kept).toBe('fixed_window.2|60000');
    expect(reset).toMatch(/^fixed_window\.2\|60000~[0-9a-f]{8}$/);
    expect(limit('on_change: reset, name: other, requests_per_unit: 5, on_store_failure: allow')).toEqual([reset]);
    for (const other of ['requests_per_unit: 6', 'requests_per_unit: 5, soft: 1'])
      expect(limit(`${other}, on_change: reset`)).not.toEqual([reset]);
  });

  test('on_change: reset gives each entry of a schedule its own counters', () => {
    const counters = countersOf(
      '    rate_limit: { unit: minute, requests_per_unit: 5, on_change: reset, schedule: [{ active: { days: sun }, requests_per_unit: 9 }] }\n',
    );
    expect(new Set(counters).size).toBe(2);
  });
});

test('the same limits apply in other processes', () => {
  const rest = `${NIGHTLY}      alignment: epoch
  - key: tenant
    rate_limit: { unit: day, requests_per_unit: 3, alignment: { anchor: 2026-11-27T00:00, timezone: Europe/Berlin }, active: { hours: [01:00-02:00, 03:00-04:00] } }
`;
  const problems = new Problems();
  const yaml = nodeOf(rest).replace('      alignment: epoch\n', '');
  const checked = checkBlocks(readText('rules.yaml', yaml, problems), problems.all, { mergeDomains: false });
  if (!checked.ok) throw new Error('expected rules that are right');
  const sent = new RulesInForce().replaceAtOnce(structuredClone(checked.packed));
  const direct = rulesFrom(yaml);
  expect([...sent.rules].map(describeRule)).toEqual([...direct.rules].map(describeRule));
  const nowMs = at('2026-11-23T03:30Z');
  expect([...sent.rules].map((rule) => scheduleAsJson(rule, nowMs))).toEqual(
    [...direct.rules].map((rule) => scheduleAsJson(rule, nowMs)),
  );
});

describe('the calendar of a time zone', () => {
  /** The number of lookups that a limit of the docs' example makes in its schedule, for each change of limits. */
  const questionsOf = (timezone: string, changes: number): readonly number[] => {
    const { schedule } = ruleFrom(NIGHTLY.replaceAll('Europe/Berlin', timezone));
    const offset = jest.spyOn(IANAZone.prototype, 'offset');
    const asked: number[] = [];
    for (let nowMs = at('2027-03-22T12:00Z'); asked.length < changes; nowMs = schedule?.changesAtMs(nowMs) ?? 0) {
      offset.mockClear();
      schedule?.at(nowMs);
      asked.push(offset.mock.calls.length);
    }
    offset.mockRestore();
    return asked;
  };

  test('is queried once a day, and searched around changes of the clock', () => {
    const [first = 0, ...more] = questionsOf('Europe/Paris', 12);
    expect(first).toBeLessThanOrEqual(10);
    const SEARCH = Math.ceil(Math.log2(86_400_000)) + 1;
    expect(more.reduce((sum, one) => sum + one)).toBeLessThanOrEqual(SEARCH + 14);
    expect(more.filter((one) => one > 2).length).toBeLessThanOrEqual(1);
  });

  test('is not queried for UTC', () => {
    expect(questionsOf('UTC', 12)).toEqual(Array.from({ length: 12 }, () => 0));
  });
});

test('a clock that steps back gets the limits of that time', () => {
  const { schedule } = ruleFrom(NIGHTLY);
  const clock = fakeClock(at('2026-11-23T21:00Z'));
  const requests = (): number | undefined => schedule?.at(clock())[0]?.limit.requestsPerUnit;
  expect(requests()).toBe(1000);
  clock.advance(-1);
  expect(requests()).toBe(100);
  clock.advance(1);
  expect(requests()).toBe(1000);
});

test('in_flight may have a schedule with other numbers', () => {
  const rest = `    descriptors:
      - key: job
        not_counted: hold
        rate_limit: { algorithm: in_flight, ttl: 9s, requests_per_unit: 5, schedule: [{ active: { hours: 22:00-06:00 }, requests_per_unit: 50 }] }
`;
  expect(problemsOf(rest)).toEqual([]);
});

test('an overlay gives a limit its times, its schedule, its anchor and on_change', () => {
  const rules = '    rate_limit: { unit: minute, requests_per_unit: 5 }\n';
  const overlay = `    rate_limit:
      active: { from: 2026-11-27T00:00 }
      schedule: [{ active: { days: sun }, requests_per_unit: 9 }]
      alignment: { anchor: 2026-11-27T00:00:30 }
      on_change: reset
`;
  expect(problemsOf(rules, overlay)).toEqual([]);
});
