import { judge } from './judge.ts';
import { patterns } from './patterns.ts';
import { exportedTypes, type Finding, scan, sharedNames, titlesIn, withoutText } from './scan.ts';

const found = (file: string, content: string): readonly string[] =>
  scan(file, content).map(({ line, text, pattern }) => `${line} ${pattern.name}: ${text}`);

test('a word is found in code, comments, texts and parts of identifiers, with its line', () => {
  const code = ['/** Who looks? */', "const toldTwice = 'nobody';", 'tellLoads(LOOK_INTERVAL_MS);'].join('\n');
  expect(found('src/one.ts', code)).toEqual([
    '2 tell: toldTwice',
    '3 tell: tellLoads',
    '1 look: looks',
    '3 look: LOOK_INTERVAL_MS',
    '1 person: Who',
    '2 person: nobody',
  ]);
});

test('a word that contains one of the words is not found', () => {
  const text = 'whole intellect outlook lookup satellite; it looks up what looks like it';
  expect(found('docs/page.md', text)).toEqual([]);
});

test('names of types are found in code, not in comments and texts', () => {
  const code = "/** Numbers of the Whole. */\nclass Crew {}\nconst view = 'Basis'; // Member\n";
  expect(found('src/one.ts', code)).toEqual(['2 vague type: Crew']);
  expect(found('docs/page.md', 'Numbers')).toEqual([]);
});

test('comments and plain strings are blanked without moving anything else', () => {
  const code = "a('it\\'s', \"x\"); // c\n/* d\n e */ f";
  expect(withoutText(code)).toBe(
    `a(${' '.repeat(7)}, ${' '.repeat(3)}); ${' '.repeat(4)}\n${' '.repeat(4)}\n${' '.repeat(5)} f`,
  );
});

test('tests are checked in their titles only', () => {
  const code = "// told\ntest('the caller is told', () => tell());\ndescribe('who', () => {});";
  expect(found('test/one.test.ts', code)).toEqual(['2 tell: told', '3 person: who']);
});

test('titles are found after test, describe and the table of test.each', () => {
  const code =
    "describe('a group', () => {\n  test.each([['x', 1]])(\n    'the title of %s', (x) => x);\n});\ntest.skip(`is 'it'`, f);";
  expect(titlesIn(code)).toEqual([
    { title: 'a group', line: 1, isTest: false },
    { title: 'the title of %s', line: 3, isTest: false },
    { title: "is 'it'", line: 5, isTest: true },
  ]);
});

test.each(['it does', 'and not before', 'in every window again', 'right files', 'of a rule counts, and answers OK'])(
  'a title that does not stand alone is found: %s',
  (title) => {
    expect(found('test/one.test.ts', `test('${title}', () => {});`)).toEqual([`1 title fragment: ${title}`]);
  },
);

test('exported types are found, re-exports and values are not', () => {
  const code =
    "export class A {}\nexport interface B {}\nexport type C = 1;\nexport type { D } from './d.ts';\nexport const e = 1;\n";
  expect(exportedTypes(code)).toEqual(['A', 'B', 'C']);
});

test('names that two exported types share are found', () => {
  const files = new Map([
    ['src/a.ts', 'export class Entry {}'],
    ['src/b.ts', 'export type Entry = 1;\nexport type Other = 2;'],
  ]);
  expect([...sharedNames(files)]).toEqual([['Entry', ['src/a.ts', 'src/b.ts']]]);
});

describe('judging findings', () => {
  const finding = (file: string, pattern: string, line: number): Finding => {
    const [one] = patterns.filter(({ name }) => name === pattern);
    if (!one) throw new Error(`unknown pattern ${pattern}`);
    return { file, line, pattern: one, text: pattern };
  };
  const findings = [finding('src/a.ts', 'tell', 1), finding('src/a.ts', 'tell', 2), finding('src/b/c.ts', 'look', 3)];
  const tells = (count: number) => [{ pattern: 'tell', reason: 'of the reference', files: { 'src/a.ts': count } }];

  test('passes where every finding is allowed', () => {
    expect(judge(findings, tells(2), { 'src/b/': { look: 1 } })).toEqual([]);
  });

  test('reports each finding that no exception allows', () => {
    expect(judge(findings, [], {})).toEqual([
      expect.stringMatching(/^src\/a\.ts:1: 'tell' \(tell\): write /),
      expect.stringMatching(/^src\/a\.ts:2: /),
      expect.stringMatching(/^src\/b\/c\.ts:3: /),
    ]);
  });

  test('reports a file with more findings than its exception allows', () => {
    expect(judge(findings, tells(1), { 'src/b/': { look: 1 } })).toContain('src/a.ts: at most 1 are allowed');
  });

  test('requires a lower count when findings are gone, so that exceptions only shrink', () => {
    expect(judge(findings, tells(3), { 'src/b/': { look: 1 } })).toEqual([
      "src/a.ts: 'tell' is allowed 3 times, found 2: lower the count",
    ]);
  });

  test('accepts fewer findings than a pending folder may have, but not more', () => {
    expect(judge(findings, tells(2), { 'src/b/': { look: 5 } })).toEqual([]);
    expect(judge(findings, tells(2), { 'src/b/': { look: 0 } })).toContain("src/b/: at most 0 of 'look' may remain");
  });
});
