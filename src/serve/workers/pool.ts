import cluster from 'node:cluster';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../../observe/log.ts';
import type { RuleBook } from '../../rules/book.ts';
import { forkMember, type Member } from './member.ts';
import type { Listening, Report } from './messages.ts';

export interface PoolOptions {
  /** How many workers there are. */
  readonly count: number;
  /** How long workers that close may take before they are killed. */
  readonly closeWithinMs: number;
  /** The rules in force, which each worker is given when it starts and when they change. */
  readonly rules: Pick<RuleBook, 'packed' | 'onChange'>;
  readonly onReport: (id: number, report: Report) => void;
  /** Worker `id` has ended, and reports no more. */
  readonly onEnd: (id: number) => void;
  /** Another worker takes the place of one that ended. */
  readonly onRestart: () => void;
}

/** Workers on the same ports. */
export interface Pool extends Listening {
  /** Has all workers report; resolves when the reports are there, but does not wait for a worker that hangs. */
  report(): Promise<void>;
  /** Has all workers answer what is under way, report for the last time, and end. */
  close(): Promise<void>;
}

/** How often workers report: so much is lost with one that is killed. */
const REPORT_INTERVAL_MS = 250;

/** A worker that lived for so long is replaced at once, another one after a while that doubles with each, from the first to the longest. */
const STEADY_MS = 10_000;
const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 10_000;

/**
 * Starts workers, which share the connections that come, and replaces those that end.
 *
 * @throws CannotStart  a worker cannot listen; then none is left
 */
export async function openPool(
  { count, closeWithinMs, rules, onReport, onEnd, onRestart }: PoolOptions,
  log: Logger,
): Promise<Pool> {
  cluster.schedulingPolicy = cluster.SCHED_RR;
  cluster.setupPrimary({ serialization: 'advanced' }); // reports have maps
  const members = new Set<Member>();
  const closing = new AbortController();
  const employ = (): Member => {
    const member = forkMember(rules.packed, onReport);
    members.add(member);
    void member.ended.then(() => {
      members.delete(member);
      onEnd(member.id);
    });
    return member;
  };
  const replace = (): Member => {
    onRestart();
    return employ();
  };
  rules.onChange(() => {
    for (const member of members) member.sendRules();
  });
  const report = async (): Promise<void> => {
    await Promise.all(Array.from(members, (member) => member.report()));
  };
  const close = async (): Promise<void> => {
    closing.abort();
    const last = setTimeout(() => {
      for (const member of members) {
        log.error(`${member.name} has not ended within ${closeWithinMs} ms and is killed`);
        member.kill();
      }
    }, closeWithinMs);
    for (const member of members) member.close();
    await Promise.all(Array.from(members, ({ ended }) => ended));
    clearTimeout(last);
  };

  const first = Array.from({ length: count }, employ);
  try {
    const [at] = await Promise.all(first.map(({ listening }) => listening));
    if (!at) throw new RangeError('a pool has one worker at least');
    for (const { name } of first) log.info(`${name} listens`);
    for (const member of first) void keepUp(member, replace, closing.signal, log);
    void repeat(report, closing.signal);
    return { ...at, report, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Puts another worker in the place of one that ends, as often as it takes. */
async function keepUp(first: Member, employ: () => Member, closing: AbortSignal, log: Logger): Promise<void> {
  let member = first;
  let startedMs = performance.now();
  let shortLives = 0;
  for (;;) {
    const how = await member.ended;
    if (closing.aborted) return;
    shortLives = performance.now() - startedMs < STEADY_MS ? shortLives + 1 : 0;
    const waitMs = shortLives === 0 ? 0 : Math.min(FIRST_WAIT_MS * 2 ** (shortLives - 1), LONGEST_WAIT_MS);
    log.error(`${member.name} ended (${how}); another takes its place in ${waitMs} ms`);
    await pause(waitMs, closing);
    if (closing.aborted) return;
    member = employ();
    startedMs = performance.now();
    const { name, listening } = member;
    listening.then(
      () => log.warn(`${name} listens`),
      (error: Error) => log.error(`${name} cannot start: ${error.message}`), // a CannotStart
    );
  }
}

async function repeat(report: () => Promise<void>, closing: AbortSignal): Promise<void> {
  while (!closing.aborted) {
    await pause(REPORT_INTERVAL_MS, closing);
    await report();
  }
}

/** Ends early when the pool closes. */
const pause = (forMs: number, signal: AbortSignal): Promise<void> =>
  sleep(forMs, undefined, { signal }).catch(() => {});
