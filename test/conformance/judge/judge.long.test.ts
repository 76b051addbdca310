import type { Contradiction } from '../../../conformance/src/judge/call.ts';
import { History } from '../../../conformance/src/judge/history.ts';
import { judgeHistory } from '../../../conformance/src/judge/judge.ts';
import { type Algorithm, algorithms, type Limit, readDeclaration } from '../../../conformance/src/judge/limits.ts';
import { record } from '../../../conformance/src/judge/record.ts';
import { type Defect, defects } from './defects.ts';
import { LimitServer } from './server.ts';

const LONGEST_MS = 120_000;
/** Servers at a time: they share a process with their clients. */
const AT_ONCE = 3;

/** What a server of one limit is said to do. */
function declare(algorithm: Algorithm) {
  const isHeld = algorithm === 'in_flight';
  const descriptor = isHeld ? { tenant: '{key}', id: '{holder}' } : { user: '{key}' };
  const own = isHeld ? { limit: 4, ttl_ms: 5_000 } : { limit: 10, window_ms: 1_000, max_hits: 3, burst: 10 };
  return readDeclaration(
    JSON.stringify({ skew_ms: 20, limits: [{ name: algorithm, domain: 'judge', descriptor, algorithm, ...own }] }),
  );
}

async function judgeServer(algorithm: Algorithm, seconds: number, defect?: Defect): Promise<readonly Contradiction[]> {
  const declaration = declare(algorithm);
  const server = await LimitServer.start(declaration.limits[0] as Limit, defect);
  const lines: Parameters<History['add']>[0][] = [];
  const load = { targets: server.targets, seconds, rate: 200, clients: 8, run: 'run', seed: 7 };
  const epochMs = await record(declaration.limits, load, (line) => lines.push(line)).finally(() => server.stop());
  const history = new History(epochMs);
  for (const line of lines) history.add(line);
  expect(history.size).toBeGreaterThan(50);
  return judgeHistory(history, declaration).flatMap(({ contradictions }) => contradictions);
}

test.each(Object.keys(algorithms) as Algorithm[])(
  'of servers of %s, the judge finds each defect, and none where there is none',
  async (algorithm) => {
    const tried = [undefined, ...defects.filter((defect) => defect.of === algorithm)];
    const verdicts: (readonly Contradiction[])[] = [];
    for (let first = 0; first < tried.length; first += AT_ONCE) {
      const some = tried.slice(first, first + AT_ONCE);
      verdicts.push(...(await Promise.all(some.map((defect) => judgeServer(algorithm, 4, defect)))));
    }
    const found = tried.map((defect, at) => [defect?.name ?? 'correct', verdicts[at]?.length !== 0] as const);
    expect(found).toEqual(tried.map((defect) => [defect?.name ?? 'correct', defect !== undefined]));
    for (const contradictions of verdicts) for (const { calls } of contradictions) expect(calls).not.toHaveLength(0);
  },
  LONGEST_MS,
);

test('there are at least 20 defects', () => {
  expect(defects.length).toBeGreaterThanOrEqual(20);
});
