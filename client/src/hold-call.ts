import { randomUUID } from 'node:crypto';
import { any } from '../../src/base/options.ts';
import { checkShape } from './check-options.ts';
import { checkTimeout, type Descriptor } from './options.ts';
import { createRequest } from './request.ts';

/** Longer than that of decisions, since these calls are rare and their answers matter more. */
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

/** The options of slots and reservations. */
const shape = { idKey: any, id: any, timeoutMs: any, signal: any, hits: any, maxDelayMs: any };

/** The holder according to the options, and its request. @internal */
export function createHolder(domain: string, descriptor: Descriptor, hits: number, options: HoldOptions) {
  checkShape(options, shape);
  const { idKey = 'request_id', id = randomUUID() } = options;
  const timeoutMs = checkTimeout(options.timeoutMs ?? DEFAULT_TIMEOUT_MS);
  return { id, timeoutMs, request: createRequest(domain, { ...descriptor, [idKey]: id }, hits) };
}
