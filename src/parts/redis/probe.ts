import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { epochWindow } from '../../engine/algorithms/fixed-window.ts';
import type { Backend, RequestOperation } from '../../engine/backends/backend.ts';
import type { CounterKey, CounterKeys } from '../../engine/backends/key.ts';
import { Pipeline } from './commands.ts';
import { isQuiet, type RedisConnection } from './connect.ts';
import { describeError } from './reason.ts';

export interface ProbeOptions {
  /** Counts on the server that is tested, by a script. */
  readonly run: Backend['run'];
  readonly redis: RedisConnection;
  /** Keys like those of counters: a user may be restricted to them. */
  readonly keys: CounterKeys;
  /** Called with each reason why the script did not run. */
  readonly onProblem: (reason: string) => void;
  /** The script runs again after a failure. */
  readonly onUsable: () => void;
  /**
   * Tests whether fixed windows can be counted without a script.
   *
   * @param key  of a scratch counter
   * @throws  Redis's reason why that is impossible
   */
  readonly testPlain: (key: CounterKey) => Promise<void>;
  /** Called with each new reason. */
  readonly onLimited: (reason: string) => void;
}

/** Tests whether Redis can count. */
export type Probe = ReturnType<typeof createProbe>;

const CALL = { spend: 'each', timeoutMs: 1_000 } as const;
/** The wait before the next probe after one that failed. */
const RETRY_MS = 500;
/** Keys that a Cluster is probed with: enough to reach most of its nodes. */
const CLUSTER_KEYS = 16;
/** Keys that a single server is probed with: one with slots, such as a node of a Cluster, refuses scripts with several. */
const SINGLE_KEYS = 2;

/** Name of the counter; those of rules begin with their algorithm. The probe's counter expires within a millisecond. */
const limit = epochWindow({ requestsPerUnit: 1, windowMs: 1 }, 'weir_probe');

/**
 * Counts on counters of its own on each new connection, after a refused call, and until it succeeds. A server that can
 * be reached but forbids the script, is still loading, or refuses writes (`OOM`, `READONLY`, `NOREPLICAS`, `MISCONF`)
 * is not ready. A probe that only reads would miss the latter.
 */
export function createProbe({ run: count, redis, keys, onProblem, onUsable, onLimited, testPlain }: ProbeOptions) {
  let problem: string | undefined = NOT_YET;
  let isProbing = false;
  /** Since the probe began, a call was refused, or the connection was replaced. */
  let isOutdated = false;
  let retry: NodeJS.Timeout | undefined;
  let isClosed = false;
  let limitation: string | undefined;
  let lacked: string | undefined;

  /** @returns  why not even fixed windows can be counted */
  const limitCounts = async (reason: string | undefined): Promise<readonly string[]> => {
    try {
      if (reason !== undefined) await Promise.all(scratchKeys(keys, reason).map(testPlain));
    } catch (error) {
      return [describeError(error)];
    }
    if (reason !== undefined && reason !== limitation) onLimited(reason);
    limitation = reason;
    lacked = undefined;
    return [];
  };
  /** Why the server cannot count; nothing if it can, at least fixed windows. */
  const test = async (): Promise<readonly string[]> => {
    const proxy = redis instanceof Redis ? await findProxy(redis, (name) => keys(limit, name, [])) : undefined;
    if (proxy === SENTINEL) return [proxy];
    const replies = proxy === undefined ? await count(listCharges(keys, redis), CALL) : [];
    const reasons = replies.flatMap((reply) => (reply.code === 'UNAVAILABLE' ? [reply.reason] : []));
    const reason = proxy ?? reasons.map(withoutPrefixes).find(isOfScripts);
    const isSame = reason === undefined && (limitation === undefined || reasons.length > 0);
    return redis.isCluster || isSame ? reasons : limitCounts(reason);
  };

  const run = async (): Promise<void> => {
    clearTimeout(retry);
    retry = undefined;
    if (isClosed) return;
    isOutdated = isProbing;
    if (isProbing) return;
    isProbing = true;
    const reasons = await test();
    isProbing = false;
    const reason = reasons.map(withoutPrefixes).find(isRefusal) ?? reasons.find(isOfServer);
    if (reasons.length === 0 && limitation === undefined) lacked = undefined;
    if (reason !== undefined) onProblem(withoutPrefixes(reason));
    else if (reasons.length === 0 && problem !== NOT_YET && problem !== undefined) onUsable();
    if (reason !== undefined || reasons.length === 0) problem = reason && withoutPrefixes(reason);
    if (reasons.length > 0 || isOutdated) runSoon();
  };
  const runSoon = (): void => {
    retry ??= setTimeout(run, RETRY_MS).unref();
  };
  redis.on('ready', () => void run());
  return {
    /** Why Redis cannot count; undefined if it can. */
    problem: () => problem ?? lacked,
    /** Why only fixed windows are counted; undefined if everything is. */
    limitation: () => limitation,
    /** Tests whether all calls are refused, after one was. */
    refused: runSoon,
    /** Notes what could not be counted for that reason; it may be by now. */
    lacks(what: string): void {
      lacked = what;
      runSoon();
    },
    close(): void {
      isClosed = true;
      clearTimeout(retry);
    },
  };
}

const listCharges = (keys: CounterKeys, { isCluster }: RedisConnection): readonly RequestOperation[] =>
  Array.from({ length: isCluster ? CLUSTER_KEYS : SINGLE_KEYS }, (_, at) => {
    const key = keys(limit, String(at), []);
    return { kind: 'charge', key, limit, hits: 1, blocks: false };
  });

/** Keys to test plain commands with: several where other nodes may have some of the slots. */
const scratchKeys = (keys: CounterKeys, reason: string): readonly CounterKey[] =>
  Array.from({ length: isOfSlots(reason) ? PROXY_KEYS : 1 }, () => keys(limit, randomUUID(), []));

const SENTINEL = 'a sentinel has no keys: REDIS_TYPE must be SENTINEL, with the name of the master in REDIS_URL';

/** Enough that a proxy with two servers has all of them on one in one of 32,768 cases. */
const PROXY_KEYS = 16;
/** How long they are kept if this process ends before it has deleted them. */
const KEPT_MS = 10_000;
const ARE_TOGETHER = "for _, key in ipairs(KEYS) do if not redis.call('GET', key) then return 0 end end return 1";

/**
 * Finds out why scripts must not be used on a connection that accepts them. A proxy sends a script to the server of its
 * first key, where the other keys are missing.
 *
 * @param nameKey  makes a key that the user may use
 */
async function findProxy(redis: Redis, nameKey: (name: string) => string): Promise<string | undefined> {
  if (isQuiet(redis))
    return 'a proxy closes connections on commands that it does not know, and may divide keys among servers';
  const hello = JSON.stringify(await redis.call('HELLO').catch(() => ''));
  if (hello.includes('"sentinel"')) return SENTINEL;
  if (hello.includes('envoy-redis-proxy')) return 'Envoy’s redis_proxy divides keys among servers';
  const isDivided = (await dividesKeys(redis, nameKey)) && (await dividesKeys(redis, nameKey)); // FLUSHALL may come between
  return isDivided ? 'a proxy divides keys among servers' : undefined;
}

/** Whether a script misses keys that were just written; not if the connection was lost. */
async function dividesKeys(redis: Redis, nameKey: (name: string) => string): Promise<boolean> {
  const instance = randomUUID();
  const keys = Array.from({ length: PROXY_KEYS }, (_, at) => nameKey(`${instance}-${at}`));
  const written = await onEach(redis, keys, 'SET', '1', 'PX', String(KEPT_MS));
  if (!written.every((reply) => String(reply) === 'OK')) return false; // nothing is known
  const found = await redis.eval(ARE_TOGETHER, PROXY_KEYS, ...keys).catch(() => undefined);
  await onEach(redis, keys, 'DEL');
  return found === 0;
}

/** The replies to a command on each key; none if the connection was lost. */
function onEach(redis: Redis, keys: readonly string[], name: string, ...args: readonly string[]) {
  const commands = new Pipeline();
  for (const key of keys) commands.add(name, key, ...args);
  return commands.send(redis).catch((): readonly unknown[] => []);
}

/** The problem before the first probe has told what Redis can count. */
export const NOT_YET = 'the script has not run yet';
const withoutPrefixes = (reason: string): string => reason.replace(/^redis: (?:the circuit is open: )?/, '');
/** Whether the server answered or could not be reached, as opposed to a call that this process gave up by itself. */
const isOfServer = (reason: string): boolean =>
  !/^redis: (?:the circuit is open|too many requests wait)/.test(reason) && !isLate(reason);

/** Whether a call failed because this process was late. */
export const isLate = (reason: string): boolean => reason.endsWith(' ms late');

/** Whether Redis refused the script, and not every change. */
export const isOfScripts = (reason: string): boolean => /^(ERR|NOPERM) /.test(reason) || isOfSlots(reason);

const isOfSlots = (reason: string): boolean => reason.startsWith('CROSSSLOT: ');

/** Whether Redis itself refused a call: its errors begin with a code such as NOPERM, OOM or ERR. */
export const isRefusal = (reason: string): boolean => /^[A-Z]{2,}:? /.test(reason);
