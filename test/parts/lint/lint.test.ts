import { formatProblem } from '../../../src/engine/rules/read/problem.ts';
import { loadText } from '../../helpers/rules.ts';

/** The warnings about a file with these descriptors, without positions. */
function warnings(descriptors: string, file = ''): readonly string[] {
  const loaded = loadText(`domain: demo\n${file}descriptors:\n${descriptors}`);
  if (!loaded.ok) throw new Error(loaded.problems.map(formatProblem).join('\n'));
  return loaded.warnings.map(({ line, message }) => `${line}: ${message}`);
}

const LIMIT = 'rate_limit: { unit: day, requests_per_unit: 5 }';
const node = (value: string) => `  - { key: user, value: '${value}', ${LIMIT} }\n`;
const literal = (value: string, what: string) =>
  `4: value '${value}' looks like ${what} and is matched literally: only * stands for other text`.replace('4:', '3:');

test('a name that breaks the header in which Envoy writes it is reported', () => {
  const named = (name: string) =>
    `  - { key: user, rate_limit: { unit: day, requests_per_unit: 5, name: ${JSON.stringify(name)} } }\n`;
  for (const name of ['a"b', 'a\\b', 'a\r\nx-injected: b', 'Stoßzeit'])
    expect(warnings(named(name))).toEqual([
      '3: a name with ", \\ or characters other than printable ASCII breaks the header x-ratelimit-limit, in which Envoy writes it as it is',
    ]);
  expect(warnings(named("it's fine"))).toEqual([]);
});

describe('values that look like something else', () => {
  test.each([
    ['10.0.0.300/8', 'a range of addresses (CIDR)'],
    ['^/api/v1', 'a regular expression'],
    ['/api/[a-z]+', 'a regular expression'],
    ['/api/.*', 'a regular expression'],
    ['(GET|POST)', 'a regular expression'],
    ['/users/\\d+', 'a regular expression'],
    ['/users/{id}', 'a path template'],
    ['/users/:id', 'a path template'],
  ])('%s', (value, what) => {
    expect(warnings(node(value))).toEqual([literal(value, what)]);
  });

  test.each(['10.0.0.0/8', '2001:db8::/32'])('%s looks like a block, which addresses matches', (value) => {
    expect(warnings(node(value))).toEqual([
      `${literal(value, 'a range of addresses (CIDR)')}; write it under addresses to match the addresses in it`,
    ]);
  });

  test.each(['/api/*', '198.51.100.*', '10.0.0.1', '2001:db8::1', 'v1.2', 'a.b.c', 'a-b', '/a/b.html', 'GET', '5:30'])(
    '%s needs no warning',
    (value) => {
      expect(warnings(node(value))).toEqual([]);
    },
  );

  test('a network needs no warning if Envoy sends it as the value of masked_remote_address', () => {
    expect(warnings(`  - { key: masked_remote_address, value: 10.0.0.0/8, ${LIMIT} }\n`)).toEqual([]);
  });

  test('blanks at the ends of a value must match as well', () => {
    expect(warnings(node(' alice'))).toEqual([
      "3: value ' alice' begins or ends with a blank, which is matched as well",
    ]);
  });
});

const bucket = (numbers: string) => `  - { key: user, rate_limit: { algorithm: token_bucket, ${numbers} } }\n`;

describe('a burst below the rate', () => {
  test.each(
    Object.entries({
      'unit: second, requests_per_unit: 10, burst: 5':
        '3: is below the rate: 5 of the 10 hits of a second pass at once',
      'unit: minute, requests_per_unit: 60, burst: 30, refill: interval':
        '3: is below the rate: a refill of 60 tokens fills only 30',
    }),
  )('%s', (numbers, message) => {
    expect(warnings(bucket(numbers))).toEqual([message]);
  });

  test.each(['unit: minute, requests_per_unit: 60, burst: 10', 'unit: second, requests_per_unit: 10, burst: 10'])(
    '%s is above it',
    (numbers) => expect(warnings(bucket(numbers))).toEqual([]),
  );
});

const OPEN = 'descriptors that end here are not limited; if this is intended, write rate_limit: { unlimited: true }';

describe('nodes without a limit', () => {
  test('a leaf beside limited ones', () => {
    expect(warnings(`  - { key: user, ${LIMIT} }\n  - { key: user, value: root }\n`)).toEqual([`4: ${OPEN}`]);
  });

  test('an unlimited node and one with children are intended', () => {
    const below = `  - { key: path, descriptors: [{ key: user, ${LIMIT} }] }\n`;
    expect(warnings(`  - { key: user, ${LIMIT} }\n  - { key: x, rate_limit: { unlimited: true } }\n${below}`)).toEqual(
      [],
    );
  });
});

test('blocked_by limits a node', () => {
  const blocked = `  - key: address
    rate_limit: { name: abuse, unit: minute, requests_per_unit: 5, penalty: { block: 1h } }
    descriptors:
      - { key: path, ${LIMIT} }
      - { key: method, blocked_by: abuse, shadow_mode: true }
`;
  expect(warnings(blocked)).toEqual([]);
});

test('count_denied has no effect if refused requests spend nothing', () => {
  const log =
    '  - { key: user, rate_limit: { algorithm: sliding_window_log, unit: day, requests_per_unit: 5, count_denied: true } }\n';
  expect(warnings(log)).toEqual([]);
  expect(warnings(log, 'spend: all_or_nothing\n')).toEqual([
    '4: has no effect: with spend: all_or_nothing refused hits are not counted',
  ]);
});

test('modes have no effect in rate_limit, as in envoyproxy/ratelimit, but in rate_limits', () => {
  const limit = '{ unit: day, requests_per_unit: 5, shadow_mode: true }';
  expect(warnings(`  - { key: user, rate_limit: ${limit} }\n`)).toEqual([
    "3: 'shadow_mode' has no effect in rate_limit and is ignored; put it on the node, or use rate_limits",
  ]);
  expect(warnings(`  - { key: user, rate_limits: [${limit}] }\n`)).toEqual([]);
});
