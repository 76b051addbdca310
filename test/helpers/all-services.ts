import type { GrpcServerOptions } from '../../src/edge/grpc/grpc-server.ts';
import { createMemoryBackend } from '../../src/engine/backends/memory/backend.ts';
import type { RuleTree } from '../../src/engine/rules/match/tree.ts';
import { offerFind } from '../../src/parts/find/offer.ts';
import { hostHolds } from '../../src/parts/holds/offer.ts';
import { createReservations } from '../../src/parts/holds/reservations.ts';
import { createHoldsService } from '../../src/parts/holds/service.ts';
import { createSlots } from '../../src/parts/holds/slots.ts';
import { createKuadrantLimits } from '../../src/parts/kuadrant/limits.ts';
import { hostKuadrant } from '../../src/parts/kuadrant/offer.ts';
import { createKuadrantService } from '../../src/parts/kuadrant/service.ts';
import { quotasService } from '../../src/parts/quotas/method.ts';
import { QuotaService, shareTerms } from '../../src/parts/quotas/quota-service.ts';
import { MemoryShares } from '../../src/parts/quotas/share-store.ts';
import { deciderOf } from './decider.ts';
import { extrasOf } from './extras.ts';
import { ledgerOf } from './ledger.ts';

export interface StoreBounds {
  readonly counterBytes: number;
  readonly shareBytes: number;
  /** For each proxy. */
  readonly maxBuckets: number;
}

/** The gRPC services besides `ShouldRateLimit`, with counters and shares in memory. */
export function allServices(
  rules: RuleTree,
  { counterBytes, shareBytes, maxBuckets }: StoreBounds,
): Pick<GrpcServerOptions, 'others'> {
  const counters = createMemoryBackend(Date.now, { maxCounters: counterBytes / 64, maxBytes: counterBytes });
  const decider = { ...deciderOf(rules, { clock: Date.now }), ledger: ledgerOf(counters) };
  const reservations = createReservations(decider);
  const terms = shareTerms(60_000);
  const quotas = new QuotaService({
    ...{ rules: () => rules, unknown: 'deny', domains: [], maxBuckets, terms },
    keyOf: (fillMs, domain, entries) => `${fillMs} ${domain} ${JSON.stringify(entries)}`,
    shares: new MemoryShares(Date.now, terms, shareBytes),
    monotonicMs: () => performance.now(),
    onUnavailable: () => {},
  });
  return {
    others: [
      offerFind({ decider }),
      hostHolds(async () => createHoldsService(createSlots(decider), reservations)),
      hostKuadrant(async () => createKuadrantService(createKuadrantLimits(decider, reservations), extrasOf())),
      quotasService(quotas),
    ],
  };
}
