import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { epochWindow } from '../../algorithms/fixed-window.ts';
import type { Backend, RequestOperation } from '../backend.ts';
import type { CounterKey, CounterKeys } from '../key.ts';
import type { RedisConnection } from './connect.ts';
import { findProxy } from './find-proxy.ts';
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
   * Counts fixed windows alone, for this reason, or everything.
   *
   * @param key  of a scratch counter
   * @throws  Redis's reason why that is impossible
   */
  readonly limit: (reason: string | undefined, key: CounterKey) => Promise<void>;
  /** Called with each new reason. */
  readonly onLimited: (reason: string) => void;
}

/** Tests whether Redis can count. */
export type Probe = ReturnType<typeof createProbe>;

const TIMEOUT_MS = 1_000;
/** The wait before the next probe after one that failed. */
const RETRY_MS = 500;
/** Keys that a Cluster is probed with: enough to reach most of its nodes. */
const CLUSTER_KEYS = 16;

/** Name of the counter; those of rules begin with their algorithm. The probe's counter expires within a millisecond. */
const limit = epochWindow({ requestsPerUnit: 1, windowMs: 1 }, 'weir_probe');

/**
 * Counts on counters of its own on each new connection, after a refused call, and until it succeeds. A server that can
 * be reached but forbids the script, is still loading, or refuses writes (`OOM`, `READONLY`, `NOREPLICAS`, `MISCONF`)
 * is not ready. A probe that only reads would miss the latter.
 */
export function createProbe({ run: count, redis, keys, onProblem, onUsable, onLimited, limit: limitTo }: ProbeOptions) {
  const charges = Array.from({ length: redis.isCluster ? CLUSTER_KEYS : 1 }, (_, at): RequestOperation => {
    const key = keys(limit, String(at), []);
    return { kind: 'charge', key, limit, hits: 1, blocks: false };
  });
  let problem: string | undefined = NOT_YET;
  let isProbing = false;
  /** Since the probe began, a call was refused, or the connection was replaced. */
  let isOutdated = false;
  let retry: NodeJS.Timeout | undefined;
  let isClosed = false;
  let limitation: string | undefined;

  /** @returns  why not even fixed windows can be counted */
  const limitCounts = async (reason: string | undefined): Promise<string | undefined> => {
    try {
      await limitTo(reason, keys(limit, randomUUID(), []));
    } catch (error) {
      return describeError(error);
    }
    if (reason !== undefined && reason !== limitation) onLimited(reason);
    limitation = reason;
    return undefined;
  };
  /** Why the server cannot count; nothing if it can, at least fixed windows. */
  const test = async (): Promise<readonly string[]> => {
    const proxy = redis instanceof Redis ? await findProxy(redis, (name) => keys(limit, name, [])) : undefined;
    const replies = proxy === undefined ? await count(charges, { spend: 'each', timeoutMs: TIMEOUT_MS }) : [];
    const reasons = replies.flatMap((reply) => (reply.code === 'UNAVAILABLE' ? [reply.reason] : []));
    const reason = proxy ?? reasons.map(withoutPrefixes).find(isOfScripts);
    const isSame = reason === undefined && (limitation === undefined || reasons.length > 0);
    if (redis.isCluster || isSame) return reasons;
    const failure = await limitCounts(reason);
    return failure === undefined ? [] : [failure];
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
    if (reason !== undefined) onProblem(withoutPrefixes(reason));
    else if (reasons.length === 0 && problem !== NOT_YET && problem !== undefined) onUsable();
    if (reason !== undefined || reasons.length === 0) problem = reason && withoutPrefixes(reason);
    if (reasons.length > 0 || isOutdated) runSoon();
  };
  const runSoon = (): void => {
    if (!isClosed) retry ??= setTimeout(run, RETRY_MS).unref();
  };
  redis.on('ready', () => void run());
  return {
    /** Why Redis cannot count; undefined if it can. */
    problem: () => problem,
    /** Whether a probe has told what Redis can count. */
    hasEnded: () => problem !== NOT_YET,
    /** Tests whether all calls are refused, after one was. */
    refused: runSoon,
    close(): void {
      isClosed = true;
      clearTimeout(retry);
    },
  };
}

const NOT_YET = 'the script has not run yet';
const withoutPrefixes = (reason: string): string => reason.replace(/^redis: (?:the circuit is open: )?/, '');
/** Whether the server answered or could not be reached, as opposed to a call that this process gave up by itself. */
const isOfServer = (reason: string): boolean =>
  !/^redis: (?:the circuit is open|too many requests wait)/.test(reason) && !isLate(reason);

/** Whether a call failed because this process was late. */
export const isLate = (reason: string): boolean => reason.endsWith(' ms late');

/** Whether Redis refused the script, and not every change. */
export const isOfScripts = (reason: string): boolean => /^(ERR|NOPERM) /.test(reason);

/** Whether Redis itself refused a call: its errors begin with a code such as NOPERM, OOM or ERR. */
export const isRefusal = (reason: string): boolean => /^[A-Z]{2,} /.test(reason);
