import '../../helpers/realm.ts';
import { RE2JS } from 're2js';
import { type Mogrifier, parseMogrifiers } from '../../../src/operate/observe/mogrifier.ts';
import { createMogrify } from '../../../src/parts/sinks/statsd.ts';

const compile = (written: string): RE2JS => RE2JS.compile(written);

/** Mogrifiers from variables such as `A_PATTERN`, without the prefix; they must be valid. */
function mogrifiersOf(labels: readonly string[], variables: Readonly<Record<string, string>>): readonly Mogrifier[] {
  const parsed = parseMogrifiers(labels, prefixed(variables), compile);
  if (!parsed.ok) throw new Error(parsed.problems.join('\n'));
  return parsed.mogrifiers;
}

const prefixed = (variables: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(variables).map(([name, value]) => [`DOG_STATSD_MOGRIFIER_${name}`, value]));

const written = (mogrifiers: readonly Mogrifier[], ...names: readonly string[]): string[] =>
  names
    .map(createMogrify(mogrifiers))
    .map(({ name, tags }) => [name, ...[...tags].map(([tag, value]) => `${tag}:${value}`)].join(' '));

describe('a statistic', () => {
  test('is rewritten by the first matching mogrifier, with groups in name and tags', () => {
    const mogrifiers = mogrifiersOf(['FOO', 'BAR'], {
      FOO_PATTERN: '^ratelimit\\.service\\.rate_limit\\.(.*)\\.(.*)\\.(total_hits)$',
      FOO_NAME: 'ratelimit.service.rate_limit.$3',
      FOO_TAGS: 'domain:$1,descriptor:$2,odd:$9',
      BAR_PATTERN: '^ratelimit\\.service\\.rate_limit\\.x\\.(.*)$',
      BAR_NAME: 'ratelimit.service.rate_limit.second.$1',
      BAR_TAGS: 'k:v',
    });
    const prefix = 'ratelimit.service.rate_limit';
    expect(
      written(mogrifiers, `${prefix}.x.a.total_hits`, `${prefix}.x.b_c.within_limit`, `${prefix}.y.a.within_limit`),
    ).toEqual([
      `${prefix}.total_hits domain:x descriptor:a odd:$9`,
      `${prefix}.second.b_c.within_limit k:v`,
      `${prefix}.y.a.within_limit`,
    ]);
  });

  test.each([
    { pattern: '(a)(b)?', name: '[$0|$1|$2|$3|$10]', of: 'a', becomes: '[a|a||$3|$10]' },
    { pattern: '(?P<what>a+)', name: '$1', of: 'xaay', becomes: 'aa' }, // matches anywhere, and replaces the whole name
    { pattern: 'a\\_b\\-c\\:', name: 'y', of: 'a_b-c:', becomes: 'y' }, // unnecessary escapes, which Go permits
    { pattern: '^[a\\-z]+$', name: 'y', of: 'b', becomes: 'b' },
    { pattern: '^\\\\-$', name: 'y', of: '\\-', becomes: 'y' },
    { pattern: '^.$', name: 'y', of: '雪', becomes: 'y' },
    { pattern: '(?i)^\\AX[[:alpha:]]+\\z', name: 'y', of: 'xyz', becomes: 'y' }, // Go's syntax
    { pattern: '(?U)a+', name: '$0', of: 'aaa', becomes: 'a' },
    { pattern: '^\\pL\\d$', name: 'y', of: 'é1', becomes: 'y' },
    { pattern: 'a|ab', name: '$0', of: 'ab', becomes: 'a' }, // the leftmost alternative, as in Go
    { pattern: '^.$', name: 'y', of: '😀', becomes: 'y' }, // one character, as in Go
  ])('$of, by $pattern as $name, is $becomes', ({ pattern, name, of, becomes }) => {
    expect(written(mogrifiersOf(['A'], { A_PATTERN: pattern, A_NAME: name }), of)).toEqual([becomes]);
  });
});

test('nested repetitions are matched in time proportional to the name', () => {
  const mogrifiers = mogrifiersOf(['SLOW', 'GOOD'], {
    SLOW_PATTERN: '^(a+)+$',
    SLOW_NAME: 'slow',
    GOOD_PATTERN: '!$',
    GOOD_NAME: 'good',
  });
  expect(written(mogrifiers, 'aaa', `${'a'.repeat(10_000)}!`, 'b')).toEqual(['slow', 'good', 'b']);
});

describe('invalid variables are reported by name', () => {
  const right = { A_PATTERN: 'x', A_NAME: 'y' };

  test.each<readonly [variables: Readonly<Record<string, string>>, problem: string | RegExp]>([
    [{ A_PATTERN: '.*' }, 'DOG_STATSD_MOGRIFIER_A_NAME must be set, since USE_DOG_STATSD_MOGRIFIERS names A'],
    [{ A_NAME: 'x' }, 'DOG_STATSD_MOGRIFIER_A_PATTERN must be set, since USE_DOG_STATSD_MOGRIFIERS names A'],
    [{ ...right, A_NAME: '' }, 'DOG_STATSD_MOGRIFIER_A_NAME must be set, since USE_DOG_STATSD_MOGRIFIERS names A'],
    [{ ...right, A_PATTERN: '(' }, /^DOG_STATSD_MOGRIFIER_A_PATTERN must be a regular expression, got '\(': /],
    [{ ...right, A_PATTERN: '\\Z' }, /^DOG_STATSD_MOGRIFIER_A_PATTERN must be a regular expression, got '\\Z': /],
    [{ ...right, A_PATTERN: 'a(?=b)' }, /^DOG_STATSD_MOGRIFIER_A_PATTERN must be a regular expression, /],
    [{ ...right, A_PATTERN: '(a)\\1' }, /^DOG_STATSD_MOGRIFIER_A_PATTERN must be a regular expression, /],
    ...['a', 'a:', ':b', 'a:b:c', 'a:b,', ','].map(
      (tags) =>
        [
          { ...right, A_TAGS: tags },
          `DOG_STATSD_MOGRIFIER_A_TAGS must be comma-separated key:value pairs, neither part empty, got '${tags}'`,
        ] as const,
    ),
  ])('%j', (variables, problem) => {
    const parsed = parseMogrifiers(['A'], prefixed(variables), compile);
    expect(parsed).toEqual({ ok: false, problems: [expect.stringMatching(problem)] });
  });

  test('several are reported at once', () => {
    const parsed = parseMogrifiers(['A', 'B'], prefixed({ A_PATTERN: '(', A_NAME: 'x' }), compile);
    expect(parsed.ok ? [] : parsed.problems.map((problem) => problem.split(' ')[0])).toEqual([
      'DOG_STATSD_MOGRIFIER_A_PATTERN',
      'DOG_STATSD_MOGRIFIER_B_PATTERN',
      'DOG_STATSD_MOGRIFIER_B_NAME',
    ]);
  });

  test('variables of unlisted mogrifiers are ignored', () => {
    expect(parseMogrifiers([], prefixed({ A_PATTERN: '(' }), compile)).toEqual({ ok: true, mogrifiers: [] });
  });
});
