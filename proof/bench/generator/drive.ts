import { createHistogram } from 'node:perf_hooks';
import { shouldRateLimit } from '../../../src/edge/rls/proto.ts';
import type { Outcome } from './answer.ts';
import { Connection } from './connection.ts';
import { createPacer, type Pace } from './pace.ts';
import { encodeRequestHeaders, type RequestHeaders } from './request-headers.ts';
import { createRequests, type Question } from './requests.ts';

/** The calls to send to one service. */
export interface Load {
  /** A port on 127.0.0.1. */
  readonly port: number;
  readonly connections: number;
  readonly pace: Pace;
  readonly question: Question;
  /** Whether calls may be refused; otherwise a refusal is a failure. */
  readonly mayRefuse?: boolean;
  /** Time after which a call is reset, and counts as refused. Default: slow answers count. */
  readonly deadlineMs?: number;
}

/** The result of a load whose calls were all answered. */
export interface Tally {
  readonly answers: Readonly<Record<Outcome, number>>;
  /** The number of calls decided before most callers give up. */
  readonly inTime: number;
  /** Time from the first call to the last answer. */
  readonly elapsedMs: number;
  /** Measured from when a call was due, so that delays of the generator or a connection count. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** CPU time of the generator's own process. */
  readonly cpuMs: number;
}

/** The default timeout of Envoy's filters. */
export const IN_TIME_MS = 20;
const STALL_MS = 10_000;
const EXPIRY_INTERVAL_MS = 5;
const NS_PER_MS = 1e6;
const US_PER_MS = 1e3;

/** @throws  a call failed or was answered wrongly, or no answer came for ten seconds */
export async function drive(load: Load): Promise<Tally> {
  const { port, connections: count, pace, question, mayRefuse = false, deadlineMs } = load;
  const requests = createRequests(question);
  const headers = headersTo(port, deadlineMs);
  const options = { port, headers, requests, mayRefuse, deadlineMs };
  const answers = { OK: 0, OVER_LIMIT: 0, REFUSED: 0 };
  let inTime = 0;
  const latencyNs = createHistogram();
  const connections: Connection[] = [];
  const pacer = createPacer(pace, connections);
  const cpuBefore = process.cpuUsage();
  let startMs = 0;
  let endMs = 0;
  let stall: NodeJS.Timeout | undefined;
  const expire = () => {
    for (const connection of connections) connection.expire(performance.now());
  };
  const expiry = deadlineMs === undefined ? undefined : setInterval(expire, EXPIRY_INTERVAL_MS);
  try {
    await new Promise<void>((resolve, reject) => {
      stall = setTimeout(() => reject(new Error(`no answer came for ${STALL_MS} ms`)), STALL_MS);
      const onAnswer = (outcome: Outcome, startedMs: number, connection: Connection) => {
        endMs = performance.now();
        answers[outcome]++;
        if (outcome !== 'REFUSED' && endMs - startedMs <= IN_TIME_MS) inTime++;
        latencyNs.record(Math.ceil((endMs - startedMs) * NS_PER_MS) + 1); // the histogram does not accept 0
        stall?.refresh();
        if (pacer.answered(connection, endMs)) resolve();
      };
      const open = async () => {
        connections.push(await Connection.open({ ...options, onAnswer, onFailure: reject }));
      };
      Promise.all(Array.from({ length: count }, open)).then(() => {
        startMs = performance.now();
        pacer.begin(startMs);
      }, reject);
    });
  } finally {
    clearTimeout(stall);
    clearInterval(expiry);
    pacer.stop();
    for (const connection of connections) connection.close();
  }
  const { user, system } = process.cpuUsage(cpuBefore);
  return {
    answers,
    inTime,
    elapsedMs: endMs - startMs,
    p50Ms: latencyNs.percentile(50) / NS_PER_MS,
    p99Ms: latencyNs.percentile(99) / NS_PER_MS,
    cpuMs: (user + system) / US_PER_MS,
  };
}

/** The headers of a gRPC client's calls. */
export const headersTo = (port: number, deadlineMs?: number): RequestHeaders =>
  encodeRequestHeaders([
    { name: ':method', value: 'POST' },
    { name: ':scheme', value: 'http' },
    { name: ':path', value: shouldRateLimit.path },
    { name: ':authority', value: `127.0.0.1:${port}` },
    { name: 'content-type', value: 'application/grpc' },
    { name: 'te', value: 'trailers' },
    ...(deadlineMs === undefined ? [] : [{ name: 'grpc-timeout', value: `${deadlineMs}m` }]),
  ]);
