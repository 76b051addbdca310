import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { staleResults } from '../../docs/results-age.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const RESULTS = new URL('../../docs/results/', import.meta.url);
const git = (...args: readonly string[]): string => execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim();

/** Lines of `src/` that were added or removed since a day; undefined if the history does not reach back so far. */
function changedLinesSince(date: string): number | undefined {
  const before = git('rev-list', '-1', `--before=${date}T23:59:59Z`, 'HEAD');
  if (before === '') return undefined;
  const counts = git('diff', '--numstat', before, '--', 'src').split('\n');
  return counts.reduce(
    (sum, line) => sum + (line.match(/^\d+|(?<=\t)\d+(?=\t)/g) ?? []).reduce((a, n) => a + +n, 0),
    0,
  );
}

test('no results page is older than 30 days and of other code', () => {
  const pages = readdirSync(RESULTS).map((name) => ({ name, text: readFileSync(new URL(name, RESULTS), 'utf8') }));
  expect(staleResults(pages, new Date(), changedLinesSince)).toEqual([]);
});

describe('a table of results', () => {
  const page = {
    name: 'bench.md',
    text: '| command | `npm run bench` |\n| date | 2026-01-01 |\n\n| command | `npm run rest` |\n| date | 2026-02-20 |\n',
  };

  test('is stale if it is old and the code has changed', () => {
    expect(staleResults([page], new Date('2026-02-21'), () => 5_001)).toEqual([
      'docs/results/bench.md: the run of 2026-01-01 is 51 days old, and 5001 lines of src/ have changed since: run `npm run bench` again',
    ]);
  });

  test('is not stale while it is new, or the code is the same, or its history is unknown', () => {
    expect(staleResults([page], new Date('2026-01-31'), () => 50_000)).toEqual([]);
    expect(staleResults([page], new Date('2027-01-31'), () => 5_000)).toEqual([]);
    expect(staleResults([page], new Date('2027-01-31'), () => undefined)).toEqual([]);
  });
});
