import '../../../helpers/realm.ts';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RuleTree } from '../../../../src/engine/rules/match/tree.ts';
import { formatProblem } from '../../../../src/engine/rules/read/problem.ts';
import { type LoadedRules, loadRules } from '../../../../src/engine/rules/reload/load.ts';

const apart = { mergeDomains: false };
const merged = { mergeDomains: true };

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'rules-'));
});

/** A file for one test, with this name in messages, too. */
function written(name: string, content: string | Uint8Array): { readonly path: string; readonly name: string } {
  const path = join(folder, name);
  writeFileSync(path, content);
  return { path, name };
}

/** A file that has been read already. */
const file = (name: string, text: string) => ({ path: name, name, text });

/** All problems or warnings in readable form. */
const told = (loaded: LoadedRules): readonly string[] =>
  (loaded.ok ? loaded.warnings : loaded.problems).map(formatProblem);

function right(loaded: LoadedRules): RuleTree {
  if (!loaded.ok) throw new Error(told(loaded).join('\n'));
  return loaded.rules;
}

/** The paths of all rules: `demo.user_alice`. */
const pathsOf = (loaded: LoadedRules): readonly string[] => [...right(loaded).rules].map(({ path }) => path);

/** Loads one file with these descriptors. */
const loadDescriptors = (descriptors: string): LoadedRules =>
  loadRules([file('rules.yaml', `domain: demo\ndescriptors:\n${descriptors}`)], apart);

/** The list of algorithms in messages. */
const ALGORITHMS =
  'fixed_window, sliding_window_log, sliding_window_counter, sliding_window_buckets, token_bucket, leaky_bucket, in_flight, allocation';
const UNITS = 'second, minute, hour, day, week, month, year';

describe('other ways to the same messages', () => {
  const count = 'expected a whole number from 0 to 9007199254740990';
  const mismatch = (line: number, what: string) =>
    `error loading config file: yaml: unmarshal errors: line ${line}: cannot unmarshal ${what}; expected`;
  const USER = 'descriptors:\n- {key: user, rate_limit: {unit: day, requests_per_unit: 5}}\n';

  test.each(
    Object.entries({
      '- key: user\n  10: x': '4: descriptors[0]: config error, key is not of type string: 10; put the key in quotes',
      '- key: user\n  0.25: x':
        '4: descriptors[0]: config error, key is not of type string: 0.25; put the key in quotes',
      '- key: user\n  [a]: x':
        '4: descriptors[0]: error loading config file: yaml: invalid map key: a list; put the key in quotes',
      '- key: user\n  Value: x': `4: descriptors[0].Value: config error, unknown key 'Value'; did you mean 'value'?`,
      '- key: user\n  algorithm: fixed_window': `4: descriptors[0].algorithm: config error, unknown key 'algorithm'; it goes into rate_limit`,
      '- [user]': '3: descriptors[0]: config error, yaml file contains list of type other than map: [user]',
      '- [user, [1, ~], {a: b}]':
        '3: descriptors[0]: config error, yaml file contains list of type other than map: [user [1 <nil>] map[a:b]]',
      '-': '3: descriptors[0]: config error, yaml file contains list of type other than map: <nil>',
      '- key: {a: b}': `3: descriptors[0].key: config error, unknown key 'a'; expected text`,
      '- key: user\n  shadow_mode: 1': `4: descriptors[0].shadow_mode: ${mismatch(4, '!!int `1` into bool')} true or false`,
      '- key: user\n  rate_limit: []': `4: descriptors[0].rate_limit: ${mismatch(4, '!!seq into config.YamlRateLimit')} a mapping; several limits go under rate_limits`,
      '- key: user\n  rate_limit: {unit: day, requests_per_unit: yes}': `4: descriptors[0].rate_limit.requests_per_unit: ${mismatch(4, '!!bool `yes` into uint32').replace(' expected', '')} ${count}`,
      '- key: 5e10': `3: descriptors[0].key: error checking config: expected text, got the number '5e10'; put it in quotes: "5e10"`,
      '- key: user\n  shadow_mode: 0.5': `4: descriptors[0].shadow_mode: error checking config: expected true or false, got the number '0.5'`,
      '- key: user\n  value: 9223372036854775808': `4: descriptors[0].value: error checking config: expected text, got the number '9223372036854775808'; put it in quotes: "9223372036854775808"`,
      '- key: user\n  rate_limit: {unit: UNKNOWN}': `4: descriptors[0].rate_limit.unit: invalid rate limit unit 'UNKNOWN'; expected one of ${UNITS}, or a window`,
      '- key: user\n  rate_limit: {unit: day, algorithm: constructor}': `4: descriptors[0].rate_limit.algorithm: unknown algorithm 'constructor'; expected one of ${ALGORITHMS}`,
      '- key: ""': '3: descriptors[0].key: descriptor has empty key: expected a name such as user, got nothing',
      '- key: ~': '3: descriptors[0].key: descriptor has empty key: expected a name such as user, got nothing',
    }),
  )('%j', (descriptors, message) => {
    expect(told(loadDescriptors(descriptors))).toEqual([`rules.yaml:${message}`]);
  });

  test.each([
    ['', '1: domain: config file cannot have empty domain: expected a name, got nothing'],
    ['# nothing but a comment\n', '1: domain: config file cannot have empty domain: expected a name, got nothing'],
    ['---\n', '1: domain: config file cannot have empty domain: expected a name, got nothing'],
    ['\n{}\n', '2: domain: config file cannot have empty domain: expected a name, got nothing'],
    ['domain: ~\n', '1: domain: config file cannot have empty domain: expected a name, got nothing'],
    [
      'domain: "demo\n',
      '2: error loading config file: yaml: line 2: unexpected end of the stream within a double quoted scalar',
    ],
    [
      '# read me\n404\n',
      '2: error loading config file: yaml: unmarshal errors: line 2: cannot unmarshal !!int `404` into map[interface {}]interface {}; expected a mapping',
    ],
    [
      'yes\n',
      '1: error loading config file: yaml: unmarshal errors: line 1: cannot unmarshal !!bool `yes` into map[interface {}]interface {}; expected a mapping',
    ],
    [
      'domain: 1.5\n',
      '1: domain: error checking config: expected text, got the number \'1.5\'; put it in quotes: "1.5"',
    ],
    [
      `domain: d\n${USER}domain: d\n`,
      "4: warning: domain: duplicate key 'domain', also on line 1; the last one counts",
    ],
    [
      `domain: d\nunit: day\n${USER}`,
      "2: warning: unit: 'unit' has no effect here and is ignored; this block takes domain, descriptors, match, spend, require",
    ],
  ])('file %j', (text, message) => {
    expect(told(loadRules([file('rules.yaml', text)], apart))).toEqual([`rules.yaml:${message}`]);
  });
});

describe('one mistake causes no message about another', () => {
  test.each([
    ['a wrong value beside a node for any value', '- key: a\n  value: 1.5\n- key: a', /value: error checking config/],
    ['a wrong `unlimited`', '- key: a\n  rate_limit: {unlimited: "true"}', /unlimited: error loading/],
    ['a wrong unit', '- key: a\n  rate_limit: {unit: 1.5, requests_per_unit: 5}', /unit: error checking/],
    [
      'a wrong name in `replaces`',
      '- key: a\n  rate_limit: {unit: day, replaces: [{name: [b]}]}',
      /name: config error, yaml file contains list/,
    ],
    ['a wrong value of a shared threshold', '- key: a\n  value: 1.5\n  share_threshold: true', /value: error checking/],
  ])('%s', (_, descriptors, message) => {
    expect(told(loadDescriptors(descriptors))).toEqual([expect.stringMatching(message)]);
  });

  test('files without a domain do not share one', () => {
    const text = 'descriptors:\n- key: user\n';
    expect(told(loadRules([file('a.yaml', text), file('b.yaml', text)], apart))).toEqual([
      'a.yaml:1: domain: config file cannot have empty domain: expected a name, got nothing',
      'b.yaml:1: domain: config file cannot have empty domain: expected a name, got nothing',
    ]);
  });
});

describe('several files', () => {
  const user = 'domain: demo\ndescriptors:\n- key: user\n  rate_limit: {unit: day}\n';
  const path = 'domain: demo\ndescriptors:\n- key: path\n  rate_limit: {unit: day}\n';
  const other = 'domain: other\ndescriptors:\n- key: user\n  rate_limit: {unit: day}\n';

  test('are one domain each', () => {
    expect(pathsOf(loadRules([file('a.yaml', user), file('b.yaml', other)], apart))).toEqual([
      'demo.user',
      'other.user',
    ]);
  });

  test('are refused if they have the same domain, unless they are merged', () => {
    const files = [file('a.yaml', user), file('b.yaml', path)];
    expect(told(loadRules(files, apart))).toEqual([
      "b.yaml:1: domain: duplicate domain 'demo' in config file: give each domain one file, or set MERGE_DOMAIN_CONFIG=true",
    ]);
    expect(pathsOf(loadRules(files, merged))).toEqual(['demo.user', 'demo.path']);
  });

  test('cannot have the same node if they are merged', () => {
    expect(told(loadRules([file('a.yaml', user), file('b.yaml', user)], merged))).toEqual([
      "b.yaml:3: descriptors[0].key: duplicate descriptor composite key 'demo.user'; a.yaml:3 has it already: move the limits and descriptors of this node there",
    ]);
  });

  test('have all problems and warnings reported at once, by file and line', () => {
    const files = [
      file('a.yaml', 'domain: a\ndescriptors:\n- kee: user\n  rate_limit: {unit: moment}\n- key: x\n  unit: day\n'),
      file('b.yaml', 'domain: b\ndescriptors: [&x {key: y}, *z]\n'),
      file('c.yaml', 'domain: c\ndescriptors:\n- {key: x, value: 1.5}\n- {key: y, shadow_mode: 1}\n'),
      file('d.yaml', other),
    ];
    expect(told(loadRules(files, apart)).map((line) => line.replace(/; expected.*|; this block takes.*/, ''))).toEqual([
      "a.yaml:3: descriptors[0].kee: config error, unknown key 'kee'; did you mean 'key'?",
      'a.yaml:3: descriptors[0].key: descriptor has empty key: expected a name such as user, got nothing',
      "a.yaml:4: descriptors[0].rate_limit.unit: invalid rate limit unit 'moment'",
      "a.yaml:6: warning: descriptors[1].unit: 'unit' has no effect here and is ignored",
      `b.yaml:2: error loading config file: yaml: unknown anchor 'z' referenced; if the text is meant, put it in quotes: "*z"`,
      'c.yaml:3: descriptors[0].value: error checking config: expected text, got the number \'1.5\'; put it in quotes: "1.5"',
      'c.yaml:4: descriptors[1].shadow_mode: error loading config file: yaml: unmarshal errors: line 4: cannot unmarshal !!int `1` into bool',
    ]);
  });

  test('in UTF-8 or UTF-16 with a byte order mark are read', () => {
    const text = '\ufeffdomain: caf\u00e9\n';
    const little = Buffer.from(text, 'utf16le');
    for (const content of [Buffer.from(text), little, Buffer.from(little).swap16()]) {
      const loaded = loadRules([written('a.yaml', content)], apart);
      expect(loaded.ok && [...loaded.rules.domains.keys()]).toEqual(['caf\u00e9']);
    }
  });

  test('that are not UTF-8 are reported', () => {
    const latin1 = Buffer.from('domain: caf\u00e9\n', 'latin1');
    expect(told(loadRules([written('a.yaml', latin1)], apart))).toEqual([
      'a.yaml:1: cannot be read: The encoded data was not valid for encoding utf-8',
    ]);
  });

  test("that are unreadable are reported with the reason, along with the others' problems", () => {
    const missing = { path: join(folder, 'missing.yaml'), name: 'missing.yaml' };
    mkdirSync(join(folder, 'directory.yaml'));
    const directory = { path: join(folder, 'directory.yaml'), name: 'directory.yaml' };
    expect(told(loadRules([missing, directory, file('c.yaml', 'domain: ""')], apart))).toEqual([
      'c.yaml:1: domain: config file cannot have empty domain: expected a name, got nothing',
      'directory.yaml:1: cannot be read: EISDIR: illegal operation on a directory, read',
      `missing.yaml:1: cannot be read: ENOENT: no such file or directory, open '${missing.path}'`,
    ]);
  });
});

describe('a file beyond a bound is refused, with its name:', () => {
  const MAX_BYTES = 8 * 1024 * 1024;
  const padded = (content: string, length: number) => content.padEnd(length, '#\n');

  test('more than 8 MiB, before the file is read', () => {
    const content = 'domain: demo\n';
    expect(loadRules([written('a.yaml', padded(content, MAX_BYTES))], apart).ok).toBe(true);
    expect(told(loadRules([written('b.yaml', padded(content, MAX_BYTES + 1))], apart))).toEqual([
      'b.yaml:1: error loading config file: a file may have at most 8388608 bytes, got 8388609',
    ]);
  });

  test('values nested too deep', () => {
    const nested = (levels: number) =>
      `domain: d\ndescriptors:\n- key: k\n  metadata: ${'{a: '.repeat(levels)}${'}'.repeat(levels)}\n`;
    expect(loadRules([file('a.yaml', nested(90))], apart).ok).toBe(true);
    expect(told(loadRules([file('b.yaml', nested(120))], apart))).toEqual([
      'b.yaml:4: error loading config file: values are nested more than 100 levels deep',
    ]);
  });

  test('too many values', () => {
    const many = `domain: d\ndescriptors: [${'x,'.repeat(1_000_000)}]\n`;
    expect(told(loadRules([file('a.yaml', many)], apart))).toEqual([
      'a.yaml:2: error loading config file: the file holds more than 1000000 values, aliases written out',
    ]);
  });

  test('too many keys with a `*` in one level', () => {
    const level = (count: number) =>
      Array.from(
        { length: count },
        (_, at) => `- key: k${at}*\n  rate_limit: {unit: day, requests_per_unit: 1}\n`,
      ).join('');
    expect(loadDescriptors(level(1_000)).ok).toBe(true);
    expect(told(loadDescriptors(level(1_001)))).toEqual([
      "rules.yaml:3: descriptors[0]: at most 1000 keys of one level may have a '*', got 1001: put the '*' into values",
    ]);
  });

  test('paths that are too long in total, due to long keys above the rules', () => {
    const rules = (count: number) =>
      `- key: ${'x'.repeat(6_000_000)}\n  descriptors:\n${Array.from({ length: count }, (_, at) => `  - {key: k${at}, rate_limit: {unit: day, requests_per_unit: 1}}\n`).join('')}`;
    expect(loadDescriptors(rules(11)).ok).toBe(true);
    expect(told(loadDescriptors(rules(12)))).toEqual([
      expect.stringMatching(
        /^rules\.yaml:1: domain: the paths of all rules.* at most 67108864 characters, got 720\d{5}$/,
      ),
    ]);
  });
});

test('messages show the first 200 characters of a text, and its position', () => {
  const long = 'x'.repeat(100_000);
  const same = `- key: ${long}\n  rate_limit: {unit: day, requests_per_unit: 1}\n`;
  const files = [
    file('a.yaml', `domain: a\n${long}: 5\ndescriptors: [{key: {}, ${long}: 5}, ${long}]\n`),
    file('b.yaml', `domain: b\ndescriptors:\n${same}${same}`),
    file('c.yaml', `domain: c\ndescriptors: ${long}\n`),
  ];
  const problems = told(loadRules(files, apart));
  expect(problems).toHaveLength(6);
  for (const problem of problems) expect(problem.length).toBeLessThan(1_000);
  expect(problems.filter((problem) => problem.includes(`${'x'.repeat(200)}…`))).toHaveLength(4);
  expect(problems.at(-1)).toContain('cannot unmarshal !!str `xxxxxxx...` into []config.YamlDescriptor');
});

describe('a valid file', () => {
  test.each(
    Object.entries({
      'carriage returns': 'domain: demo\r\ndescriptors:\r\n- key: user\r\n  rate_limit:\r\n    unit: day\r\n',
      'a byte order mark': '\uFEFFdomain: demo\ndescriptors:\n- key: user\n  rate_limit: {unit: day}\n',
      'no line feed at its end': 'domain: demo\ndescriptors:\n- key: user\n  rate_limit: {unit: day}',
      'tabs between values': 'domain:\tdemo\ndescriptors:\n- key:\tuser\n  rate_limit:\t{unit: day}\n',
      'a list in brackets, closed on a line of its own':
        'domain: demo\ndescriptors: [\n  {key: user, rate_limit: {unit: day}},\n]\n',
      'a mapping in braces, closed on a line of its own':
        'domain: demo\ndescriptors:\n- key: user\n  rate_limit: {\n    unit: day\n  }\n',
      JSON: '{"domain": "demo", "descriptors": [{"key": "user", "rate_limit": {"unit": "day"}}]}',
      anchors:
        'domain: demo\ndescriptors:\n- key: user\n  rate_limit: &x {unit: day}\n- key: user\n  value: x\n  descriptors: [{key: a, rate_limit: *x}]\n',
    }),
  )('with %s', (_, text) => {
    expect(pathsOf(loadRules([written('rules.yaml', text)], apart))).toContain('demo.user');
  });

  test('has all parts of a rule', () => {
    const loaded = loadDescriptors(`
- key: user
  value: alice
  shadow_mode: on
  quota_mode: true
  detailed_metric: true
  metadata: {y: 010, rate: 1.5, off: {on: ~, 010: [no, "no"]}}
  rate_limit:
    name: alice
    unit: MiNuTe
    requests_per_unit: 1_000
    replaces: [{name: base}, {name: other}]
    algorithm: fixed_window
`);
    expect(right(loaded).rules).toEqual([
      {
        domain: 'demo',
        place: { file: 'rules.yaml', line: expect.any(Number) },
        path: 'demo.user_alice',
        levels: ['user_alice'],
        named: 'by_request',
        limits: [
          {
            limit: {
              algorithm: 'fixed_window',
              alignment: 'epoch',
              counter: 'fixed_window.2|60000',
              requestsPerUnit: 1000,
              soft: 0,
              windowMs: 60_000,
            },
            label: { name: 'alice', unit: 'MINUTE', unitMultiplier: 1 },
            policy: { shadow: true, quota: true },
          },
        ],
        unlimited: false,
        shadow: true,
        quota: true,
        replaces: ['base', 'other'],
        metadata: { y: 8, rate: 1.5, off: { true: null, 8: [false, 'no'] } },
      },
    ]);
  });

  test.each([
    ['the rule', '- {key: user, value: "a*", rate_limit: {unit: day}}', 'by_rule'],
    ['what was asked for', '- {key: user, detailed_metric: true, rate_limit: {unit: day}}', 'by_request'],
    ['the value', '- {key: user, value_to_metric: true, rate_limit: {unit: day}}', 'by_levels'],
    [
      'the value above',
      '- {key: a, value_to_metric: true, descriptors: [{key: b, rate_limit: {unit: day}}]}',
      'by_levels',
    ],
    ['the key', '- {key: "us*", rate_limit: {unit: day}}', 'by_levels'],
    ['an exact value', '- {key: user, value: x, value_to_metric: true, rate_limit: {unit: day}}', 'by_rule'],
    [
      'a shared pattern',
      '- {key: a, value: "x*", share_threshold: true, value_to_metric: true, rate_limit: {unit: day}}',
      'by_rule',
    ],
  ])('has statistics named after %s', (_, descriptors, named) => {
    expect(right(loadDescriptors(descriptors)).rules).toMatchObject([{ named }]);
  });

  test('cannot have a mapping as a key of its metadata', () => {
    const loaded = loadDescriptors('- {key: user, metadata: {a: {[x]: 1}}}');
    expect(told(loaded)).toEqual([
      'rules.yaml:3: descriptors[0].metadata: error loading config file: yaml: invalid map key: a list',
    ]);
  });

  test.each([
    ['unlimited: true', true, []],
    ['unlimited: yes, requests_per_unit: 5', true, []],
    ['unlimited: true, unit: foo', true, []], // as in envoyproxy/ratelimit
    ['unlimited: false, unit: day', false, [{ limit: { requestsPerUnit: 0 } }]],
    ['unit: day, requests_per_unit: 4294967295', false, [{ limit: { requestsPerUnit: 4_294_967_295 } }]],
    ['unit: day, requests_per_unit: 010', false, [{ limit: { requestsPerUnit: 8 } }]],
    ['unit: day, requests_per_unit: 0x10', false, [{ limit: { requestsPerUnit: 16 } }]],
    ['unit: day, requests_per_unit: ~', false, [{ limit: { requestsPerUnit: 0 } }]],
    ['unit: day, replaces: [], name: ~', false, [{ label: { name: '' } }]],
  ])('with the limit {%s}', (limit, unlimited, limits) => {
    const { rules } = right(loadDescriptors(`- key: user\n  rate_limit: {${limit}}\n`));
    expect(rules).toMatchObject([{ unlimited, limits }]);
  });

  test.each([
    ['rate_limit:', '4: warning: descriptors[0].rate_limit: is empty: '],
    ['rate_limit: ~', '4: warning: descriptors[0].rate_limit: is empty: '],
    ['descriptors:', '3: warning: descriptors[0]: '],
    ['descriptors: []', '3: warning: descriptors[0]: '],
    ['metadata:', '3: warning: descriptors[0]: '],
    ['shadow_mode: ~', '3: warning: descriptors[0]: '],
  ])('with nothing in `%s`', (nothing, place) => {
    const limited = '- {key: other, rate_limit: {unit: day, requests_per_unit: 5}}\n';
    const loaded = loadDescriptors(`- key: user\n  ${nothing}\n${limited}`);
    expect({ told: told(loaded), paths: pathsOf(loaded) }).toEqual({
      told: [
        `rules.yaml:${place}descriptors that end here are not limited; if this is intended, write rate_limit: { unlimited: true }`,
      ],
      paths: ['demo.other'],
    });
  });

  test.each(['404', 'yes', '010', '1_000', '-'])('keeps the text of %s in keys, values and names', (text) => {
    const quoted = text === '-' ? "'-'" : text;
    const loaded = loadDescriptors(
      `- key: ${quoted}\n  value: ${quoted}\n  rate_limit: {unit: day, name: ${quoted}}\n`,
    );
    expect(right(loaded).rules).toMatchObject([{ path: `demo.${text}_${text}`, limits: [{ label: { name: text } }] }]);
  });

  test('has no value if the value is empty', () => {
    const loaded = loadDescriptors(
      '- {key: a, value: ~, rate_limit: {unit: day}}\n- {key: b, value: "", rate_limit: {unit: day}}\n',
    );
    expect(pathsOf(loaded)).toEqual(['demo.a', 'demo.b']);
  });

  test.each(['constructor', '__proto__', 'hasOwnProperty', 'toString'])('with %s as a key and value', (word) => {
    const loaded = loadDescriptors(
      `- {key: ${word}, value: ${word}, rate_limit: {unit: day}}\n- {key: x, descriptors: [{key: ${word}, rate_limit: {unit: day}}]}\n`,
    );
    expect(pathsOf(loaded)).toEqual([`demo.${word}_${word}`, `demo.x.${word}`]);
  });

  test.each(['constructor', '__proto__', 'hasOwnProperty'])('does not accept %s as a key of the format', (word) => {
    expect(told(loadDescriptors(`- {key: user, ${word}: {unit: day}}\n`))).toEqual([
      expect.stringContaining(
        `rules.yaml:3: descriptors[0].${word}: config error, unknown key '${word}'; expected one of key, `,
      ),
    ]);
  });

  test('may have nodes that differ only in where key and value meet', () => {
    const loaded = loadDescriptors(`
- {key: a, value: b_c, rate_limit: {unit: day}}
- {key: a_b, value: c, rate_limit: {unit: day}}
- {key: a_b_c, rate_limit: {unit: day}}
`);
    expect(pathsOf(loaded)).toEqual(['demo.a_b_c', 'demo.a_b_c', 'demo.a_b_c']);
  });

  test.each([
    [
      'a key of the format where it means nothing',
      '- {key: user, rate_limit: {unit: day, requests_per_unit: 5, shadow_mode: true}}',
      'shadow_mode',
    ],
    ['a repeated key', '- {key: path, key: user, rate_limit: {unit: day, requests_per_unit: 5}}', 'duplicate key'],
  ])('with %s is loaded with a warning', (_, descriptors, warning) => {
    const loaded = loadDescriptors(descriptors);
    expect(told(loaded)).toEqual([expect.stringContaining(warning)]);
    expect(right(loaded).rules).toMatchObject([{ path: 'demo.user', shadow: false }]);
  });
});
