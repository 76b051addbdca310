import type { WireDescriptor, WireResponse } from '../../src/edge/wire/wire.ts';
import { codeNumbers } from '../../src/edge/wire/wire.ts';
import { createClient } from '../../test/helpers/grpc-client.ts';

export const DOMAIN = 'soak';
/** The keys of all callers; each request has a hit for the next ones. */
export const KEYS = 1_500_000;
/** Keys of one request: so many that 20 minutes reach all. */
const KEYS_EACH = 7;
/** Each exceeds its limit of a request a second. */
const CLIENTS = 50;
const CONNECTIONS = 4;
const CALLS_PER_SECOND = 200;
const TICK_MS = 50;
const MS_PER_SECOND = 1_000;

/** What callers know: numbers of calls, and of hits of the keys whose usage is compared. */
export interface Traffic {
  calls: number;
  /** Calls that were answered without the store, as `on_store_failure: local` says. */
  degraded: number;
  failed: number;
  /** Requests that a limit refused. */
  refused: number;
  hitsSent: number;
  hitsAdmitted: number;
  /** Of calls that were degraded or failed: the store may have counted a hit that its caller did not learn of. */
  hitsUnsure: number;
}

/** Makes calls at a steady rate, whether they are answered or not, until it is stopped. */
export function startTraffic(port: number): { readonly sums: Traffic; stop(): Promise<void> } {
  const clients = Array.from({ length: CONNECTIONS }, () => createClient(`127.0.0.1:${port}`));
  const sums: Traffic = {
    calls: 0,
    degraded: 0,
    failed: 0,
    refused: 0,
    hitsSent: 0,
    hitsAdmitted: 0,
    hitsUnsure: 0,
  };
  const running = new Set<Promise<void>>();
  const call = async (): Promise<void> => {
    const client = clients[sums.calls % CONNECTIONS];
    const descriptors = nextDescriptors(sums.calls++);
    sums.hitsSent += KEYS_EACH;
    try {
      const response = await client?.send({ domain: DOMAIN, descriptors, hits_addend: 1 });
      if (response) note(response, sums);
    } catch {
      sums.failed++;
      sums.hitsUnsure += KEYS_EACH;
    }
  };
  const startMs = performance.now();
  const ticker = setInterval(() => {
    const due = ((performance.now() - startMs) / MS_PER_SECOND) * CALLS_PER_SECOND;
    while (sums.calls < due) {
      const one = call().finally(() => running.delete(one));
      running.add(one);
    }
  }, TICK_MS);
  return {
    sums,
    async stop() {
      clearInterval(ticker);
      await Promise.all(running);
      for (const client of clients) client.close();
    },
  };
}

function nextDescriptors(call: number): readonly WireDescriptor[] {
  const users = Array.from({ length: KEYS_EACH }, (_, at) => ['user', String((call * KEYS_EACH + at) % KEYS)] as const);
  return [...users, ['client', String(call % CLIENTS)] as const].map(([key, value]) => ({
    entries: [{ key, value }],
    limit: null,
    hits_addend: null,
    is_negative_hits: false,
  }));
}

function note({ overall_code, statuses, dynamic_metadata }: WireResponse, sums: Traffic): void {
  const isDegraded = JSON.stringify(dynamic_metadata ?? null).includes('degraded');
  const admitted = statuses.slice(0, KEYS_EACH).filter(({ code }) => code === codeNumbers.OK).length;
  sums.hitsAdmitted += admitted;
  if (overall_code === codeNumbers.OVER_LIMIT) sums.refused++;
  if (!isDegraded) return;
  sums.degraded++;
  sums.hitsUnsure += KEYS_EACH;
}
