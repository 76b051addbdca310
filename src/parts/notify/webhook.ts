import { createHmac, randomUUID } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import { splitCredentials } from '../../base/credentials.ts';
import { rfc3339 } from '../../base/times.ts';
import type { WorkState } from '../../operate/observe/work-state.ts';

interface WebhookOptions {
  readonly url: string;
  /** Undefined: requests are not signed. */
  readonly secret: string | undefined;
  readonly state: Pick<WorkState, 'works' | 'failed'>;
  readonly clock: Clock;
  /** Resolves after this time. */
  readonly sleep: (ms: number) => Promise<unknown>;
}

const MAX_WAITING = 1_000;
const MAX_IN_REQUEST = 100;
const TIMEOUT_MS = 5_000;
/** Pauses after failures of a request, which is dropped after the last one. */
const PAUSES_MS: readonly number[] = [1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000];
/** The shortest time between two requests. */
const INTERVAL_MS = 1_000;

/**
 * Sends events to an HTTP server: one request at a time, each until it is answered with a status of 2xx.
 *
 * @see https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
export class Webhook {
  readonly #options: WebhookOptions;
  #waiting: object[] = [];
  #isSending = false;
  #dropped = 0;

  constructor(options: WebhookOptions) {
    this.#options = options;
  }

  get dropped(): number {
    return this.#dropped;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  add(events: readonly object[]): void {
    const room = MAX_WAITING - this.#waiting.length;
    this.#waiting.push(...events.slice(0, room));
    this.#dropped += Math.max(events.length - room, 0);
    if (!this.#isSending && this.#waiting.length > 0) void this.#sendAll();
  }

  async #sendAll(): Promise<void> {
    this.#isSending = true;
    while (this.#waiting.length > 0) {
      const events = this.#waiting.slice(0, MAX_IN_REQUEST);
      if (!(await this.#send(events))) this.#dropped += events.length;
      this.#waiting = this.#waiting.slice(events.length);
      await this.#options.sleep(INTERVAL_MS);
    }
    this.#isSending = false;
  }

  async #send(events: readonly object[]): Promise<boolean> {
    const id = `msg_${randomUUID()}`;
    for (const pauseMs of [...PAUSES_MS, 0]) {
      try {
        await this.#post(id, events);
        this.#options.state.works();
        return true;
      } catch (error) {
        this.#options.state.failed(reasonOf(error));
      }
      await this.#options.sleep(pauseMs);
    }
    return false;
  }

  async #post(id: string, events: readonly object[]): Promise<void> {
    const { secret, clock } = this.#options;
    const { url, headers: credentials } = splitCredentials(this.#options.url);
    const nowMs = clock();
    const body = JSON.stringify({ type: 'limit.share_passed', timestamp: rfc3339(nowMs), data: { events } });
    const timestamp = String(Math.floor(nowMs / 1_000));
    const headers = {
      ...credentials,
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      ...(secret !== undefined && { 'webhook-signature': sign(secret, `${id}.${timestamp}.${body}`) }),
    };
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const response = await fetch(url, { method: 'POST', body, headers, signal, redirect: 'manual' });
    await response.body?.cancel();
    if (!response.ok) throw new Error(`it answers with status ${response.status}`);
  }
}

/** The cause of a failure, which `fetch` hides. That of a host with several addresses has no message but a code. */
function reasonOf(error: unknown): unknown {
  const { cause } = error as { readonly cause?: Error & { readonly code?: string } }; // all that are thrown are errors
  return cause ? cause.message || cause.code : error;
}

/** @param secret  `whsec_` and base64, or any text */
function sign(secret: string, text: string): string {
  const key = secret.startsWith('whsec_') ? Buffer.from(secret.slice('whsec_'.length), 'base64') : Buffer.from(secret);
  return `v1,${createHmac('sha256', key).update(text).digest('base64')}`;
}
