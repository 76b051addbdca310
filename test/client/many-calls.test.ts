import { type Client, type ClientOptions, type Decision, WeirUnavailable } from '../../client/src/index.ts';
import { GrpcError, status } from '../../src/h2/grpc/grpc-status.ts';
import { startBusyNeighbours } from '../helpers/busy-neighbours.ts';
import { allowed, startScripted } from './scripted-server.ts';
import { closeAll, openClient, RULES, startService } from './service.ts';

/** Of `user` a day, in RULES. */
const LIMIT = 5;

afterEach(closeAll);

const limitAtOnce = (client: Client, calls: number): Promise<readonly Decision[]> =>
  Promise.all(Array.from({ length: calls }, () => client.limit('demo', { user: 'a' })));

/** Sends calls of one user at once to a service with its defaults, and counters in memory. */
async function callAtOnce(calls: number, options: Omit<ClientOptions, 'target'>): Promise<readonly Decision[]> {
  const { grpc: target } = await startService(RULES, {}, { isPatient: false });
  return limitAtOnce(await openClient({ target, onError: 'allow', ...options }), calls);
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
    const decisions = await callAtOnce(2_000, { timeoutMs: 10_000, batch });
    expect(failuresOf(decisions)).toEqual([]);
    expect(countErrors(decisions)).toBe(0);
    expect(admittedOf(decisions)).toBe(LIMIT);
  });

  test('fail only by their timeout if they may wait for 250 ms: at most as many as the limit says pass', async () => {
    const decisions = await callAtOnce(500, { timeoutMs: 250, batch, breaker: false }); // which timeouts would open
    expect(failuresOf(decisions)).toEqual([]);
    expect(admittedOf(decisions)).toBeLessThanOrEqual(LIMIT);
  });
});

test('with the defaults of the client on a busy machine, of 2,000 calls of one user at once, at most 50 pass a limit of 5', async () => {
  const opened = await Promise.all(
    (['grpc', 'http'] as const).map(async (protocol) => {
      const { [protocol]: target } = await startService(RULES, {}, { isPatient: false });
      return openClient({ target, timeoutMs: 20, onError: 'local' });
    }),
  );
  const neighbours = await startBusyNeighbours();
  try {
    for (const client of opened)
      expect((await limitAtOnce(client, 2_000)).filter(({ ok }) => ok).length).toBeLessThanOrEqual(50);
  } finally {
    await neighbours.stop();
  }
});

test('calls that may each wait for longer than others are all decided', async () => {
  const { grpc: target } = await startService(RULES, {}, { isPatient: false });
  const client = await openClient({ target, timeoutMs: 20 });
  const call = () => client.limit('demo', { user: 'a' }, { timeoutMs: 10_000 });
  const decisions = await Promise.all(Array.from({ length: 2_000 }, call));
  expect(countErrors(decisions)).toBe(0);
  expect(admittedOf(decisions)).toBe(LIMIT);
});

test('a call to a server that has too many is sent again until its deadline', async () => {
  let calls = 0;
  const { target } = await startScripted({
    shouldRateLimit() {
      if (++calls < 4) throw new GrpcError(status.RESOURCE_EXHAUSTED, 'too many calls');
      return allowed;
    },
  });
  const client = await openClient({ target, breaker: { failures: 1 }, onError: 'deny' });
  expect(await client.limit('demo', { user: 'a' })).toMatchObject({ ok: true, error: undefined });
  calls = -1_000;
  expect(await client.limit('demo', { user: 'a' }, { timeoutMs: 2_000 })).toMatchObject({
    source: 'client_deny',
    error: { kind: 'overloaded' },
  });
  expect(client.stats().servers[0]?.breaker).toBe('closed');
});

test('queued calls are settled by the refusal of a call with the same descriptors, and others are sent', async () => {
  const { grpc: target } = await startService(RULES);
  const client = await openClient({ target });
  const decisions = await Promise.all([
    ...Array.from({ length: 500 }, () => client.limit('demo', { user: 'a' }, { hits: 6 })),
    ...Array.from({ length: 500 }, (_, at) => client.limit('demo', { free: at })),
  ]);
  expect(decisions.filter(({ ok }) => ok)).toHaveLength(500);
  expect(client.stats().batchedCalls).toBeLessThan(1_000);
});
