import { randomUUID } from 'node:crypto';
import type { Caller } from './caller.ts';
import { checkTimeout, type Descriptor } from './options.ts';
import { requestOf } from './request.ts';
import { encodeHold } from './wire/encode.ts';
import type { LimitRequest } from './wire/messages.ts';

/** Calls about holds are rarer than decisions, and their answers matter more. */
const DEFAULT_TIMEOUT_MS = 1_000;

/** The identity of a holder, and how long it waits for the service. */
export interface HoldOptions {
  /** The key of the entry with the holder's id: the rule's `not_counted: hold`. Default: `request_id`. */
  readonly idKey?: string;
  /** The holder's id. Default: a random UUID. */
  readonly id?: string;
  /** How long to wait for the service, beyond `maxDelayMs`. Default: 1,000. */
  readonly timeoutMs?: number;
  /** Aborts the wait. */
  readonly signal?: AbortSignal;
}

/** A method of `weir.v1.Holds`. */
export type HoldMethod = 'Acquire' | 'Renew' | 'Release' | 'Reserve' | 'Commit';

export interface HoldCall {
  readonly request: LimitRequest;
  readonly timeoutMs: number;
  readonly maxDelayMs?: number;
  readonly signal?: AbortSignal | undefined;
}

/** The holder according to the options, and its request. */
export function holderOf(domain: string, descriptor: Descriptor, hits: number, options: HoldOptions) {
  const { idKey = 'request_id', id = randomUUID() } = options;
  const timeoutMs = checkTimeout(options.timeoutMs ?? DEFAULT_TIMEOUT_MS);
  return { id, timeoutMs, request: requestOf(domain, { ...descriptor, [idKey]: id }, hits) };
}

/** @returns the encoded answer */
export async function callHolds(caller: Caller, method: HoldMethod, options: HoldCall): Promise<Buffer> {
  const { request, timeoutMs, maxDelayMs = 0, signal } = options;
  const message = encodeHold(request, maxDelayMs);
  return caller.call(`/weir.v1.Holds/${method}`, message, timeoutMs + maxDelayMs, signal);
}
