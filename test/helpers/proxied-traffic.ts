import { RequestWork } from '../../src/base/request-work.ts';
import { type Caller, createRlsService } from '../../src/edge/rls/service.ts';
import type { WireDescriptor } from '../../src/edge/wire/wire.ts';
import { unitMs } from '../../src/engine/algorithms/limit.ts';
import { createMemoryBackend } from '../../src/engine/backends/memory/backend.ts';
import { findCounter } from '../../src/engine/decide/counter-key.ts';
import { InvalidRequest } from '../../src/engine/decide/decide.ts';
import { Overrides } from '../../src/engine/decide/overrides.ts';
import { Evidence } from '../../src/parts/findings/evidence.ts';
import { createFindings } from '../../src/parts/findings/findings.ts';
import { fakeClock } from './clock.ts';
import { deciderOf } from './decider.ts';
import { extrasOf } from './extras.ts';
import { ledgerOf, manualTimers } from './ledger.ts';
import { numbers } from './numbers.ts';
import { rulesFrom } from './rules.ts';

const START_MS = 1_700_000_000_000;

/** A descriptor; `hits` of undefined are those of the request, and negative ones release. */
export const sent = (entries: Readonly<Record<string, string>>, hits?: number): WireDescriptor => ({
  entries: Object.entries(entries).map(([key, value]) => ({ key, value })),
  limit: null,
  hits_addend: hits === undefined ? null : { value: Math.abs(hits) },
  is_negative_hits: hits !== undefined && hits < 0,
});

/** Proxies that call deciders, whose evidence is judged every five seconds, on a clock that runs only here. */
export function createProxiedTraffic(rules: readonly string[], { deciders = 1, seed = 1 } = {}) {
  const clock = fakeClock(START_MS);
  const random = numbers(seed);
  const tree = rulesFrom(...rules);
  const timers = manualTimers();
  const { every } = timers;
  const ledger = ledgerOf(createMemoryBackend(clock, { maxCounters: 100_000 }), { clock, monotonicMs: clock, every });
  const overrides = new Overrides(clock, (unit) => unitMs[unit]);
  const plain = deciderOf(tree, { clock, ledger, overrides });
  const processes = Array.from({ length: deciders }, () => {
    const evidence = new Evidence(clock, random);
    const decider = { ...plain, onBounded: evidence.bounded };
    const service = createRlsService(decider, extrasOf(), {
      answered: (request, answer, caller) => evidence.answered(request, answer, caller),
      failed(_status, cause, call) {
        if (!(cause instanceof InvalidRequest)) throw cause;
        if (call) evidence.invalid(call.request, call.caller);
      },
    });
    return { evidence, service };
  });
  ledger.lapses?.listen((lapse) => {
    const counter = findCounter(tree, lapse.key, plain);
    if (counter) processes[0]?.evidence.lapsed(counter, lapse);
  });
  const collect = async () => processes.map(({ evidence }) => structuredClone(evidence.report()));
  const findings = createFindings(collect, clock);
  const connections = new Map<string, Caller['connection']>();
  const connectionOf = (host: string, at: number): Caller['connection'] => {
    const known = connections.get(`${host} ${at}`) ?? { address: { host, port: 50_000 + at } };
    connections.set(`${host} ${at}`, known);
    return known;
  };
  let requests = 0;
  const later: { readonly atMs: number; readonly run: () => void }[] = [];
  return {
    random,
    findings,
    overrides,
    requests: () => requests,
    nowMs: clock,
    /** Sends a request by a proxy. @returns the response code, or undefined for a failure */
    send(proxy: string, domain: string, descriptors: readonly WireDescriptor[], hits = 0): number | undefined {
      requests++;
      const at = Math.floor(random() * deciders);
      const connection = connectionOf(proxy, at) as NonNullable<Caller['connection']>;
      const caller: Caller = {
        timeoutMs: Number.POSITIVE_INFINITY,
        header: () => undefined,
        work: new RequestWork(),
        connection,
      };
      let code: number | undefined;
      void processes[at]?.service.shouldRateLimit({ domain, descriptors, hits_addend: hits }, caller, (outcome) => {
        code = 'response' in outcome ? outcome.response.overall_code : undefined;
      });
      return code;
    },
    after: (ms: number, run: () => void) => void later.push({ atMs: clock() + ms, run }),
    /** Lets seconds pass. @param each  called ten times in each of them; true ends the time */
    async pass(seconds: number, each: () => boolean): Promise<void> {
      for (let tenth = 1; tenth <= 10 * seconds; tenth++) {
        if (each()) return;
        clock.advance(100);
        for (let at = later.length - 1; at >= 0; at--)
          if ((later[at]?.atMs ?? 0) <= clock()) later.splice(at, 1)[0]?.run();
        const elapsedMs = clock() - START_MS;
        if (elapsedMs % 10_000 === 0) for (const { evidence } of processes) evidence.rotate();
        if (elapsedMs % 1_000 === 0) await timers.runOnce();
        if (elapsedMs % 5_000 === 0) await findings.refresh();
      }
    },
  };
}

export type ProxiedTraffic = ReturnType<typeof createProxiedTraffic>;
