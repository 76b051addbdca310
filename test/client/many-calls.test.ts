import { type ClientOptions, type Decision, WeirUnavailable } from '../../client/src/index.ts';
import { closeAll, openClient, RULES, startService, TIMEOUT_MS } from './service.ts';

/** Of `user` a day, in RULES. */
const LIMIT = 5;

afterEach(closeAll);

/** Sends calls of one user at once to a service with its defaults, and counters in memory. */
async function callAtOnce(calls: number, options: Omit<ClientOptions, 'target'>): Promise<readonly Decision[]> {
  const { grpc: target } = await startService(RULES, {}, { isPatient: false });
  const client = await openClient({ target, onError: 'allow', ...options });
  return Promise.all(Array.from({ length: calls }, () => client.limit('demo', { user: 'a' })));
}

/** The distinct errors of calls that failed for another reason than their timeout. */
const failuresOf = (decisions: readonly Decision[]): readonly string[] => {
  const errors = decisions.flatMap(({ error }) => (error ? [error] : []));
  const isTimeout = (error: Error): boolean => error instanceof WeirUnavailable && error.kind === 'timeout';
  return [...new Set(errors.filter((error) => !isTimeout(error)).map(String))];
};

const countErrors = (decisions: readonly Decision[]): number => decisions.filter(({ error }) => error).length;

const admittedOf = (decisions: readonly Decision[]): number => decisions.filter(({ ok, error }) => ok && !error).length;

describe.each([
  ['in batches', true],
  ['one by one', false],
])('calls of one user that are sent at once, %s,', (_, batch) => {
  test('are all decided if they may wait: as many as the limit says pass', async () => {
    const decisions = await callAtOnce(5_000, { timeoutMs: TIMEOUT_MS, batch });
    expect(failuresOf(decisions)).toEqual([]);
    expect(countErrors(decisions)).toBe(0);
    expect(admittedOf(decisions)).toBe(LIMIT);
  });

  test('fail only by their timeout if they may wait for 250 ms: at most as many as the limit says pass', async () => {
    const decisions = await callAtOnce(500, { timeoutMs: 250, batch });
    expect(failuresOf(decisions)).toEqual([]);
    expect(admittedOf(decisions)).toBeLessThanOrEqual(LIMIT);
  });
});
