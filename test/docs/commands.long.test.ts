import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { longForms, otherCommands } from '../../proof/proofs.ts';
import { type Fate, judge, lineOf, type Passage, passagesOf, type Verdict } from '../helpers/pages/coverage.ts';
import { exceptions, notRun } from '../helpers/pages/exceptions.ts';
import { PROJECT, pages, textOf } from '../helpers/pages/page.ts';
import { ownTests, pageRuns } from '../helpers/pages/runs.ts';
import { commandsIn, formsOf } from '../helpers/pages/shell.ts';

const passages = pages.flatMap(passagesOf);
const verdicts: (Verdict & { readonly passage: Passage })[] = [];

beforeAll(async () => {
  for (const passage of passages) verdicts.push({ passage, ...(await judge(passage)) });
});

test.each([...new Set(passages.map(({ page }) => page))])(
  'every command in %s is run by a test, checked, or exempted with a reason',
  (page) => {
    const ofPage = verdicts.filter(({ passage }) => passage.page === page);
    expect(
      ofPage.flatMap(({ passage, problems }) => problems.map((problem) => `${page}:${passage.line}: ${problem}`)),
    ).toEqual([]);
  },
);

test.each([...otherCommands, ...longForms])('npm run proof -- list has a command that exists: %s', async (text) => {
  expect((await judge({ page: 'CONTRIBUTING.md', line: 1, text, isMention: true })).problems).toEqual([]);
});

/** The number of blocks, or of commands in sentences, with a fate. */
const count = (expected: Fate, isMention: boolean): number =>
  verdicts.filter(({ passage, fate }) => fate === expected && passage.isMention === isMention).length;
const timesNeeded = (exception: (typeof exceptions)[number]): number =>
  verdicts.flatMap(({ needed }) => needed).filter((needed) => needed === exception).length;

test('every exception is needed', () => {
  expect(exceptions.filter((exception) => timesNeeded(exception) === 0)).toEqual([]);
  for (const { page, part } of notRun) expect(textOf(page)).toContain(part);
});

test('the tests that run commands of pages exist', () => {
  for (const [page, path] of Object.entries(ownTests)) {
    expect(existsSync(join(PROJECT, path))).toBe(true);
    expect(textOf(path)).toContain(page);
  }
  for (const page of Object.keys(pageRuns)) expect(pages).toContain(page);
});

test('most blocks are run', () => {
  expect(count('run', false)).toBeGreaterThan(count('checked', false) + count('excepted', false));
});

test.each([
  ['A=1 b "c d" | e # f\ng', ['b c d', 'e', 'g']],
  ["a > out 2>&1 < in 'x # y'", ['a x # y']],
  ['for i in 1 2; do\n  a $(b c)\ndone', ['a $(b c)']],
  ['a \\\n  b && (cd d; e)', ['a b', 'cd d', 'e']],
])('the commands of %j are found', (script, commands) => {
  expect(commandsIn(script).map(lineOf)).toEqual(commands);
});

test.each([
  ['weir override set|list|remove', ['weir override set', 'weir override list', 'weir override remove']],
  ['weir envoy RULES [--for istio]', ['weir envoy RULES --for istio']],
])('the summary %s expands to its forms', (summary, forms) => {
  expect(formsOf(summary)).toEqual(forms);
});

test.each([
  ['npx weir frobnicate', 'weir has no command frobnicate'],
  ['weir ask demo user=alice --hitz 2', 'weir ask has no flag --hitz'],
  ['weir check --format xml', '--format of weir check takes text, json, github, sarif, not xml'],
  ['weir diff a b c', 'weir diff takes at most 2 operands'],
  ['STORE_TIMEOT=1s npx weir serve', 'STORE_TIMEOT is no setting'],
  ['npm run bensh', 'package.json has no script bensh'],
  ['npm run fuzz -- --mend', 'npm run fuzz has no flag --mend'],
  ['npm run proof -- atack', 'there is no proof atack'],
  ['npm run proof -- attack --mend', 'npm run proof -- attack has no flag --mend'],
  ['npx tsx deploy/image/rootfs.ts --mend', 'deploy/image/rootfs.ts has no flag --mend'],
  ['npx jest test/nowhere', 'no test matches test/nowhere'],
  ['NO_SUCH_VARIABLE=1 npx jest test/docs/links', 'no test reads NO_SUCH_VARIABLE'],
  ['helm install weir deploy/helm/weir --set replica=2', 'the chart has no value replica'],
  ['docker compose -f deploy/compose.yaml up', 'there is no deploy/compose.yaml'],
  ['terraform apply', 'no test runs or checks terraform apply'],
])('%s is reported as wrong', async (text, problem) => {
  const { problems } = await judge({ page: 'docs/sites.md', line: 1, text, isMention: true });
  expect(problems).toContain(problem);
});
