import '../helpers/realm.ts';
import fs, { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadSource, openRuleBook, type RuleBook } from '../../src/rules/book.ts';
import { plainPath } from '../../src/rules/files.ts';
import type { LoadedRules } from '../../src/rules/load.ts';
import { formatProblem } from '../../src/rules/problem.ts';

const LOOK_INTERVAL_MS = 1_000;

/** The text of a rule file with one rule of this key. */
const ruleFor = (key: string, domain = 'demo'): string =>
  `domain: ${domain}\ndescriptors:\n- key: ${key}\n  rate_limit: {unit: day, requests_per_unit: 1}\n`;

let folder: string;
let book: RuleBook | undefined;
let loads: LoadedRules[];

beforeEach(() => {
  jest.useFakeTimers();
  folder = mkdtempSync(join(tmpdir(), 'rules-'));
  loads = [];
});
afterEach(() => {
  book?.close();
  jest.useRealTimers();
  rmSync(folder, { recursive: true });
});

const at = (path: string): string => join(folder, path);
const write = (path: string, text: string): void => writeFileSync(at(path), text);

function open(path: string, { mergeDomains = false } = {}): void {
  const onLoad = (loaded: LoadedRules): void => void loads.push(loaded);
  book = openRuleBook(plainPath(at(path)), { mergeDomains, lookIntervalMs: LOOK_INTERVAL_MS, onLoad });
}

/** Lets the book look once more. */
const look = (): void => void jest.advanceTimersByTime(LOOK_INTERVAL_MS);

/** The paths of the rules in force. */
const inForce = (): readonly string[] | undefined => book?.rules()?.rules.map(({ path }) => path);

/** What each load came to: the number of rules, or the problems. */
const outcomes = (): readonly (number | readonly string[])[] =>
  loads.map((loaded) => (loaded.ok ? loaded.rules.rules.length : loaded.problems.map(formatProblem)));

test('the first load is over when the book is open', () => {
  write('rules.yaml', ruleFor('user'));
  open('rules.yaml');
  expect({ rules: inForce(), outcomes: outcomes() }).toEqual({ rules: ['demo.user'], outcomes: [1] });
  expect(loads[0]?.ok && loads[0].rules).toBe(book?.rules());
});

test('nothing is loaded again while nothing changes', () => {
  write('rules.yaml', ruleFor('user'));
  open('rules.yaml');
  const { rules } = { rules: book?.rules() };
  for (let times = 0; times < 10; times++) look();
  expect(loads).toHaveLength(1);
  expect(book?.rules()).toBe(rules);
});

test('nor before the next look is due', () => {
  write('rules.yaml', ruleFor('user'));
  open('rules.yaml');
  write('rules.yaml', ruleFor('address'));
  jest.advanceTimersByTime(LOOK_INTERVAL_MS - 1);
  expect(loads).toHaveLength(1);
  jest.advanceTimersByTime(1);
  expect(loads).toHaveLength(2);
});

describe('rules are loaded again, once, after', () => {
  test.each<[string, () => void, readonly string[]]>([
    ['a file is written in place', () => write('rules/a.yaml', ruleFor('address')), ['demo.address']],
    [
      'a file is written in place, as long as before',
      () => {
        write('rules/a.yaml', ruleFor('resu'));
        utimesSync(at('rules/a.yaml'), 2_000_000_000, 2_000_000_000);
      },
      ['demo.resu'],
    ],
    [
      'another file is renamed into its place, as old and as long as before',
      () => {
        write('new', ruleFor('resu'));
        utimesSync(at('new'), 1_600_000_000, 1_600_000_000);
        renameSync(at('new'), at('rules/a.yaml'));
      },
      ['demo.resu'],
    ],
    ['a file is added', () => write('rules/b.yaml', ruleFor('user', 'other')), ['demo.user', 'other.user']],
    [
      'a file is added below',
      () => {
        mkdirSync(at('rules/team'));
        write('rules/team/a.yaml', ruleFor('user', 'other'));
      },
      ['demo.user', 'other.user'],
    ],
    ['a file is renamed', () => renameSync(at('rules/a.yaml'), at('rules/z.yaml')), ['demo.user']],
    [
      'a file is deleted',
      () => {
        write('rules/b.yaml', ruleFor('user', 'other'));
        rmSync(at('rules/a.yaml'));
      },
      ['other.user'],
    ],
    ['the last file is deleted: those of before stay', () => rmSync(at('rules/a.yaml')), ['demo.user']],
  ])('%s', (_, change, rules) => {
    mkdirSync(at('rules'));
    write('rules/a.yaml', ruleFor('user'));
    utimesSync(at('rules/a.yaml'), 1_600_000_000, 1_600_000_000);
    open('rules');
    expect(inForce()).toEqual(['demo.user']);
    change();
    for (let times = 0; times < 3; times++) look();
    expect({ rules: inForce(), loads: loads.length }).toEqual({ rules, loads: 2 });
  });

  test('a link is swapped for one to another directory', () => {
    for (const [directory, key] of [
      ['first', 'user'],
      ['second', 'resu'],
    ] as const) {
      mkdirSync(at(directory));
      write(`${directory}/rules.yaml`, ruleFor(key));
      utimesSync(at(`${directory}/rules.yaml`), 1_600_000_000, 1_600_000_000);
    }
    symlinkSync('first', at('current'));
    open('current');
    symlinkSync('second', at('next'));
    renameSync(at('next'), at('current'));
    look();
    look();
    expect({ rules: inForce(), loads: loads.length }).toEqual({ rules: ['demo.resu'], loads: 2 });
  });

  test('a ConfigMap is updated: its `..data` is swapped', () => {
    for (const [version, key] of [
      ['..1', 'user'],
      ['..2', 'resu'],
    ] as const) {
      mkdirSync(at(version));
      write(`${version}/rules.yaml`, ruleFor(key));
    }
    symlinkSync('..1', at('..data'));
    symlinkSync('..data/rules.yaml', at('rules.yaml'));
    open('.');
    expect(inForce()).toEqual(['demo.user']);
    symlinkSync('..2', at('..data_tmp'));
    renameSync(at('..data_tmp'), at('..data'));
    look();
    expect({ rules: inForce(), loads: loads.length }).toEqual({ rules: ['demo.resu'], loads: 2 });
  });
});

test('wrong rules leave those in force alone and tell all their problems, once; right ones take over again', () => {
  write('rules.yaml', ruleFor('user'));
  open('rules.yaml');
  const before = book?.rules();
  write('rules.yaml', 'domain: demo\ndescriptors:\n- kee: user\n- key: a\n  rate_limit: {unit: moment}\n');
  look();
  look();
  expect(book?.rules()).toBe(before);
  expect(outcomes()).toEqual([
    1,
    [
      expect.stringMatching(/rules.yaml:3: .* unknown key 'kee'/),
      expect.stringMatching(/rules.yaml:3: .* empty key/),
      expect.stringMatching(/rules.yaml:5: .* invalid rate limit unit 'moment'/),
    ],
  ]);
  write('rules.yaml', ruleFor('address'));
  look();
  expect({ rules: inForce(), loads: loads.length }).toEqual({ rules: ['demo.address'], loads: 3 });
});

test('there are no rules until the files have been right for the first time', () => {
  write('rules.yaml', 'domain: [');
  open('rules.yaml');
  expect(book?.rules()).toBeUndefined();
  write('rules.yaml', ruleFor('user'));
  look();
  expect(inForce()).toEqual(['demo.user']);
});

test('a place that cannot be read is told once, keeps the rules in force, and is read when it is there', () => {
  const unreadable = [`${at('rules')}:1: cannot be read: ENOENT: no such file or directory, stat '${at('rules')}'`];
  open('rules');
  look();
  expect({ rules: book?.rules(), outcomes: outcomes() }).toEqual({ rules: undefined, outcomes: [unreadable] });

  mkdirSync(at('rules'));
  write('rules/a.yaml', ruleFor('user'));
  look();
  expect(inForce()).toEqual(['demo.user']);

  rmSync(at('rules'), { recursive: true });
  look();
  look();
  expect({ rules: inForce(), outcomes: outcomes() }).toEqual({
    rules: ['demo.user'],
    outcomes: [unreadable, 1, unreadable],
  });

  mkdirSync(at('rules'));
  write('rules/a.yaml', ruleFor('address'));
  look();
  expect(inForce()).toEqual(['demo.address']);
});

test('a file that links to nothing keeps the rules in force until it is mended', () => {
  mkdirSync(at('rules'));
  write('rules/a.yaml', ruleFor('user'));
  open('rules');
  symlinkSync('nowhere', at('rules/b.yaml'));
  look();
  expect({ rules: inForce(), outcomes: outcomes() }).toEqual({
    rules: ['demo.user'],
    outcomes: [
      1,
      [expect.stringContaining(`cannot be read: ENOENT: no such file or directory, stat '${at('rules/b.yaml')}'`)],
    ],
  });
  write('rules/nowhere', ruleFor('user', 'other'));
  look();
  expect(inForce()).toEqual(['demo.user', 'other.user']);
});

test('files of one domain are put together only where that is wanted', () => {
  mkdirSync(at('rules'));
  write('rules/a.yaml', ruleFor('user'));
  write('rules/b.yaml', ruleFor('address'));
  open('rules');
  expect(book?.rules()).toBeUndefined();
  book?.close();
  open('rules', { mergeDomains: true });
  expect(inForce()).toEqual(['demo.user', 'demo.address']);
});

test('a closed book looks no more', () => {
  write('rules.yaml', ruleFor('user'));
  open('rules.yaml');
  book?.close();
  write('rules.yaml', ruleFor('address'));
  look();
  expect(loads).toHaveLength(1);
});

test('a source can be loaded once, without a book', () => {
  write('rules.yaml', ruleFor('user'));
  expect(loadSource(plainPath(at('rules.yaml')), { mergeDomains: false }).ok).toBe(true);
  const missing = loadSource(plainPath(at('missing')), { mergeDomains: false });
  expect(missing.ok || missing.problems.map(formatProblem)).toEqual([
    `${at('missing')}:1: cannot be read: ENOENT: no such file or directory, stat '${at('missing')}'`,
  ]);
});

test('a file that cannot be read for a moment is read at the next look, though nothing about it changes', () => {
  write('rules.yaml', ruleFor('user'));
  open('rules.yaml');
  write('rules.yaml', ruleFor('path').replace('requests_per_unit: 1', 'requests_per_unit: 22'));
  const full = Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' });
  const read = jest.spyOn(fs, 'readFileSync').mockImplementationOnce(() => {
    throw full;
  });
  look();
  read.mockRestore();
  expect({ rules: inForce(), told: outcomes().at(-1) }).toEqual({
    rules: ['demo.user'],
    told: [expect.stringContaining('cannot be read: EMFILE')],
  });
  look();
  expect(inForce()).toEqual(['demo.path']);
});
