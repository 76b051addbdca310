import type { Queue } from 'bullmq';
import type { Key } from '../middleware/options.ts';
import { createRequest } from '../request.ts';
import { scripts } from './scripts.ts';

/** The operations of BullMQ on single jobs, and its client of Redis. */
export type Backend = Pick<Queue['backend'], 'promote' | 'getState' | 'client'>;

/** A queue or a worker of BullMQ, by its connection and its keys. */
export type QueueKeys = Pick<Queue, 'backend' | 'toKey'>;

/** The operations of a queue or worker of BullMQ 6, or of BullMQ 5, which has them elsewhere. */
export function findBackend(queue: QueueKeys): Backend {
  if (queue.backend) return queue.backend;
  const { scripts, client } = queue as unknown as { scripts: Backend; client: Backend['client'] }; // BullMQ 5
  return { promote: (id) => scripts.promote(id), getState: (id) => scripts.getState(id), client };
}

/** The number of lines that are read, or of jobs that are appended, in one call. */
const PAGE = 1_000;

/**
 * The jobs that wait for their turn: a line for each key, in order of arrival, in Redis next to BullMQ's own keys. Only
 * the first job of a line, its head, may be requested from Weir; a refusal closes its line for a while.
 */
export class Lines {
  readonly #queue: QueueKeys;
  #client: QueueKeys['backend']['client'] | undefined;

  constructor(queue: QueueKeys) {
    this.#queue = queue;
  }

  /**
   * Appends jobs in this order, except those that have started, or have their own delay.
   *
   * @param delayMs  the delay of a job without its own
   * @returns  jobs that have become the head of the line
   */
  async *arrive(line: string, ids: readonly string[], delayMs: number): AsyncGenerator<string> {
    for (let at = 0; at < ids.length; at += PAGE) {
      const page = ids.slice(at, at + PAGE);
      const head = asText(await this.#run('weirArrive', line, this.#queue.toKey(''), delayMs, ...page));
      if (head !== undefined) yield head;
    }
  }

  /**
   * A worker has received the job, which is added to the line if it is missing.
   *
   * @param goesFirst  the job has been started before
   * @returns  0: it is the job's turn; else the time until its turn, in ms; undefined: another job is first
   */
  async enter(line: string, id: string, goesFirst: boolean): Promise<number | undefined> {
    const waitMs = Number(await this.#run('weirEnter', line, id, goesFirst ? '1' : '0'));
    return waitMs < 0 ? undefined : waitMs;
  }

  /**
   * Closes the line for `ms`.
   *
   * @param refusedMs  the time until the job could pass; undefined: it was not refused. Further refusals within that
   * time count as the same one.
   * @returns  the number of refusals of this job
   */
  async close(line: string, id: string, ms: number, refusedMs: number | undefined): Promise<number> {
    return Number(await this.#run('weirRefuse', line, id, Math.ceil(ms), Math.ceil(refusedMs ?? -1)));
  }

  /** Removes a job. @returns  the new head, if this was the head */
  async leave(line: string, id: string): Promise<string | undefined> {
    return asText(await this.#run('weirLeave', line, id));
  }

  async head(line: string): Promise<string | undefined> {
    return asText(await this.#run('weirHead', line));
  }

  /** The lines that are open, each with its head. */
  async *open(): AsyncGenerator<readonly [line: string, head: string]> {
    for (let offset = 0; ; offset += PAGE) {
      const found = await this.#run('weirOpenLines', '', this.#key('line:'), offset, PAGE);
      const texts = Array.isArray(found) ? found.map(String) : [];
      for (let at = 0; at < texts.length; at += 2) yield [texts[at] ?? '', texts[at + 1] ?? ''];
      if (texts.length < 2 * PAGE) return;
    }
  }

  #key(name: string): string {
    return this.#queue.toKey(`weir:${name}`);
  }

  async #run(script: keyof typeof scripts, line: string, ...rest: readonly (string | number)[]): Promise<unknown> {
    this.#client ??= this.#define();
    const client = await this.#client;
    const keys = [this.#key('lines'), this.#key(`line:${line}`), this.#key('arrivals'), this.#key('refusals')];
    const named = script === 'weirOpenLines' ? rest : [line, ...rest];
    if (client.runCommand) return client.runCommand(script, [...keys, ...named]);
    const own = client as unknown as Record<string, (...args: unknown[]) => unknown>; // ioredis, in older versions
    return own[script]?.(...keys, ...named);
  }

  async #define() {
    const client = await findBackend(this.#queue).client;
    for (const [name, lua] of Object.entries(scripts)) client.defineCommand(name, { numberOfKeys: 4, lua });
    return client;
  }
}

const asText = (reply: unknown): string | undefined => (typeof reply === 'string' && reply !== '' ? reply : undefined);

/**
 * The line of the jobs that are counted by these descriptors.
 *
 * @throws TypeError  the service cannot count by these descriptors
 */
export const lineKey = (domain: string, key: NonNullable<Key>): string =>
  JSON.stringify([domain, ...createRequest(domain, key, 1).descriptors]);
