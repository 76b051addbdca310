import '../../../helpers/realm.ts';
import fs, { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { formatProblem, isUnread } from '../../../../src/engine/rules/read/problem.ts';
import { loadSource, openRuleBook, type RuleBook } from '../../../../src/engine/rules/reload/book.ts';
import { plainPath, type RuleSource } from '../../../../src/engine/rules/reload/files.ts';
import type { LoadedRules } from '../../../../src/engine/rules/reload/load.ts';
import { gate } from '../../../helpers/gate.ts';

const POLL_INTERVAL_MS = 1_000;

/** The text of a rule file with one rule of this key. */
const ruleFor = (key: string, domain = 'demo'): string =>
  `domain: ${domain}\ndescriptors:\n- key: ${key}\n  rate_limit: {unit: day, requests_per_unit: 1}\n`;

let folder: string;
let book: RuleBook | undefined;
let loads: LoadedRules[];
/** The number of unfinished listings. */
let lists: number;

beforeEach(() => {
  jest.useFakeTimers();
  folder = mkdtempSync(join(tmpdir(), 'rules-'));
  loads = [];
  lists = 0;
});
afterEach(() => {
  book?.close();
  jest.useRealTimers();
});

const at = (path: string): string => join(folder, path);
const write = (path: string, text: string): void => writeFileSync(at(path), text);

/** The source, which counts unfinished listings: the file system does not depend on fake timers. */
function watched(path: string): RuleSource {
  const source = plainPath(at(path));
  const list = async () => {
    lists++;
    try {
      return await source.list();
    } finally {
      lists--;
    }
  };
  return { ...source, list };
}

async function open(path: string, { mergeDomains = false } = {}): Promise<void> {
  const onLoad = (loaded: LoadedRules): void => void loads.push(loaded);
  book = await openRuleBook(watched(path), { mergeDomains, pollIntervalMs: POLL_INTERVAL_MS, onLoad });
}

/** Lets the book poll once more and load the rules. */
async function look(): Promise<void> {
  jest.advanceTimersByTime(POLL_INTERVAL_MS);
  await loaded();
}

/** Waits for a load: small rules are loaded within a few turns after the file system's answer. */
async function loaded(): Promise<void> {
  for (let quiet = 0; quiet < 20; quiet++) {
    await nextTurn();
    if (lists > 0) quiet = 0;
  }
}

/** The paths of the current rules. */
const inForce = (): readonly string[] | undefined => {
  const tree = book?.rules();
  return tree && Array.from(tree.rules, ({ path }) => path);
};

const isLastUnread = (): boolean | undefined => {
  const last = loads.at(-1);
  return last && !last.ok && isUnread(last.problems);
};

/** The result of each load: the number of rules, or the problems. */
const outcomes = (): readonly (number | readonly string[])[] =>
  loads.map((loaded) => (loaded.ok ? loaded.rules.rules.length : loaded.problems.map(formatProblem)));

test('the first load is over when the book is open', async () => {
  write('rules.yaml', ruleFor('user'));
  await open('rules.yaml');
  expect({ rules: inForce(), outcomes: outcomes() }).toEqual({ rules: ['demo.user'], outcomes: [1] });
  expect(loads[0]?.ok && loads[0].rules).toBe(book?.rules());
});

test('the first load keeps as many problems as later ones, and counts the others', async () => {
  const wrong = (count: number): string =>
    JSON.stringify({ domain: 'demo', descriptors: new Array(count).fill({ value: 'x' }) });
  write('rules.yaml', wrong(1_200));
  await open('rules.yaml');
  write('rules.yaml', wrong(1_300));
  await look();
  const last = (load: number) => [outcomes()[load]].flat()[1_000];
  expect(outcomes().map((problems) => [problems].flat().length)).toEqual([1_001, 1_001]);
  expect(last(0)).toMatch('and 200 more problems');
  expect(last(1)).toMatch('and 300 more problems');
});

test('nothing is loaded again while nothing changes', async () => {
  write('rules.yaml', ruleFor('user'));
  await open('rules.yaml');
  const { rules } = { rules: book?.rules() };
  for (let times = 0; times < 10; times++) await look();
  expect(loads).toHaveLength(1);
  expect(book?.rules()).toBe(rules);
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
  ])('%s', async (_, change, rules) => {
    mkdirSync(at('rules'));
    write('rules/a.yaml', ruleFor('user'));
    utimesSync(at('rules/a.yaml'), 1_600_000_000, 1_600_000_000);
    await open('rules');
    expect(inForce()).toEqual(['demo.user']);
    change();
    for (let times = 0; times < 3; times++) await look();
    expect({ rules: inForce(), loads: loads.length }).toEqual({ rules, loads: 2 });
  });

  test('a ConfigMap is updated: its `..data` is swapped', async () => {
    for (const [version, key] of [
      ['..1', 'user'],
      ['..2', 'resu'],
    ] as const) {
      mkdirSync(at(version));
      write(`${version}/rules.yaml`, ruleFor(key));
    }
    symlinkSync('..1', at('..data'));
    symlinkSync('..data/rules.yaml', at('rules.yaml'));
    await open('.');
    expect(inForce()).toEqual(['demo.user']);
    symlinkSync('..2', at('..data_tmp'));
    renameSync(at('..data_tmp'), at('..data'));
    await look();
    expect({ rules: inForce(), loads: loads.length }).toEqual({ rules: ['demo.resu'], loads: 2 });
  });
});

test('invalid rules change nothing and report all problems once, and valid ones take effect again', async () => {
  write('rules.yaml', ruleFor('user'));
  await open('rules.yaml');
  const before = book?.rules();
  write('rules.yaml', 'domain: demo\ndescriptors:\n- kee: user\n- key: a\n  rate_limit: {unit: moment}\n');
  await look();
  await look();
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
  await look();
  expect({ rules: inForce(), loads: loads.length }).toEqual({ rules: ['demo.address'], loads: 3 });
});

test('an unreadable path is reported once, keeps the current rules, and is read when it exists', async () => {
  const unreadable = [`${at('rules')}:1: cannot be read: ENOENT: no such file or directory, stat '${at('rules')}'`];
  await open('rules');
  await look();
  expect({ rules: book?.rules(), outcomes: outcomes() }).toEqual({ rules: undefined, outcomes: [unreadable] });

  mkdirSync(at('rules'));
  write('rules/a.yaml', ruleFor('user'));
  await look();
  expect(inForce()).toEqual(['demo.user']);

  rmSync(at('rules'), { recursive: true });
  await look();
  await look();
  expect({ rules: inForce(), outcomes: outcomes() }).toEqual({
    rules: ['demo.user'],
    outcomes: [unreadable, 1, unreadable],
  });

  mkdirSync(at('rules'));
  write('rules/a.yaml', ruleFor('address'));
  await look();
  expect(inForce()).toEqual(['demo.address']);
});

test('a broken link keeps the current rules until it is fixed', async () => {
  mkdirSync(at('rules'));
  write('rules/a.yaml', ruleFor('user'));
  await open('rules');
  symlinkSync('nowhere', at('rules/b.yaml'));
  await look();
  expect({ rules: inForce(), outcomes: outcomes() }).toEqual({
    rules: ['demo.user'],
    outcomes: [
      1,
      [expect.stringContaining(`cannot be read: ENOENT: no such file or directory, stat '${at('rules/b.yaml')}'`)],
    ],
  });
  write('rules/nowhere', ruleFor('user', 'other'));
  await look();
  expect(inForce()).toEqual(['demo.user', 'other.user']);
});

test('files of one domain are merged only if enabled', async () => {
  mkdirSync(at('rules'));
  write('rules/a.yaml', ruleFor('user'));
  write('rules/b.yaml', ruleFor('address'));
  await open('rules');
  expect(book?.rules()).toBeUndefined();
  book?.close();
  await open('rules', { mergeDomains: true });
  expect(inForce()).toEqual(['demo.user', 'demo.address']);
});

test('requests are answered while the file system hangs, and files are polled when it recovers', async () => {
  write('rules.yaml', ruleFor('user'));
  const answers = gate();
  let isSlow = false;
  let asked = 0;
  const source = watched('rules.yaml');
  const slow: RuleSource = {
    ...source,
    async list() {
      asked++;
      if (isSlow) await answers.passed;
      return source.list();
    },
  };
  const onLoad = (load: LoadedRules): void => void loads.push(load);
  book = await openRuleBook(slow, { mergeDomains: false, pollIntervalMs: POLL_INTERVAL_MS, onLoad });
  write('rules.yaml', ruleFor('address'));
  isSlow = true;
  for (let times = 0; times < 10; times++) await look();
  expect({ rules: inForce(), asked }).toEqual({ rules: ['demo.user'], asked: 2 }); // one listing at a time
  answers.open();
  await loaded();
  expect(inForce()).toEqual(['demo.address']);
  await look();
  expect(asked).toBe(3);
});

test('a file may vanish while a directory is listed', async () => {
  write('rules.yaml', ruleFor('user'));
  const source = plainPath(at('rules.yaml'));
  let asked = 0;
  const racing: RuleSource = {
    ...source,
    async list() {
      if (++asked % 2 === 1) throw new Error('ENOENT: no such file or directory');
      return source.list();
    },
  };
  expect((await loadSource(racing, { mergeDomains: false })).ok).toBe(true);
});

test('a closed book stops polling', async () => {
  write('rules.yaml', ruleFor('user'));
  await open('rules.yaml');
  book?.close();
  write('rules.yaml', ruleFor('address'));
  await look();
  expect(loads).toHaveLength(1);
});

test('a file that was unreadable for a moment is read at the next poll, even if it has not changed', async () => {
  write('rules.yaml', ruleFor('user'));
  await open('rules.yaml');
  write('rules.yaml', ruleFor('path').replace('requests_per_unit: 1', 'requests_per_unit: 22'));
  const full = Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE', syscall: 'open' });
  const read = jest.spyOn(fs, 'openSync').mockImplementationOnce(() => {
    throw full;
  });
  await look();
  read.mockRestore();
  expect({ rules: inForce(), told: outcomes().at(-1), isUnread: isLastUnread() }).toEqual({
    rules: ['demo.user'],
    told: [expect.stringContaining('cannot be read: EMFILE')],
    isUnread: true,
  });
  await look();
  expect(inForce()).toEqual(['demo.path']);
});

test('rules that could not be checked are not called invalid, and are checked again', async () => {
  write('rules.yaml', ruleFor('user'));
  await open('rules.yaml');
  write('rules.yaml', ruleFor('address'));
  const gone = jest.spyOn(TextDecoder.prototype, 'decode').mockImplementationOnce(() => {
    throw new Error("Cannot find module 'chunk.js'");
  });
  await look();
  gone.mockRestore();
  expect({ rules: inForce(), told: outcomes().at(-1), isUnread: isLastUnread() }).toEqual({
    rules: ['demo.user'],
    told: [`${at('rules.yaml')}:1: cannot be checked: Cannot find module 'chunk.js'`],
    isUnread: true,
  });
  await look();
  expect(inForce()).toEqual(['demo.address']);
  write('rules.yaml', 'domain: [');
  await look();
  expect(isLastUnread()).toBe(false);
});

test('invalid rules are retried with increasing delays while no file changes, and at once when one does', async () => {
  write('rules.yaml', 'domain: [');
  await open('rules.yaml');
  const read = jest.spyOn(fs, 'openSync');
  const polls: number[] = [];
  for (let poll = 1; poll <= 100; poll++) {
    read.mockClear();
    await look();
    if (read.mock.calls.length > 0) polls.push(poll);
  }
  read.mockRestore();
  expect(polls).toEqual([1, 3, 7, 15, 31, 61, 91]);
  expect(loads).toHaveLength(1);
  write('rules.yaml', ruleFor('user'));
  await look();
  expect(inForce()).toEqual(['demo.user']);
});
