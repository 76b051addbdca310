import { methodPaths, type SideService } from '../../edge/grpc/side-service.ts';
import type { Extras } from '../../edge/rls/service.ts';
import type { Reservations } from '../../engine/decide/reservations.ts';
import type { SlotsDecider } from '../../engine/decide/slots.ts';
import type { KuadrantService } from './service.ts';

const paths = methodPaths('kuadrant.service.ratelimit.v1.RateLimitService', [
  'CheckRateLimit',
  'Report',
  'Reserve',
  'Commit',
]);

/** What the service decides with. */
interface Deciding {
  readonly decider: SlotsDecider;
  readonly reservations: Reservations;
  readonly extras: Extras;
}

/** The service of Kuadrant's filter, loaded with its first call. */
export const offerKuadrant = ({ decider, reservations, extras }: Deciding): SideService =>
  hostKuadrant(async () => {
    const [{ createKuadrantLimits }, { createKuadrantService }] = await Promise.all([
      import('./limits.ts'),
      import('./service.ts'),
    ]);
    return createKuadrantService(createKuadrantLimits(decider, reservations), extras);
  });

export const hostKuadrant = (create: () => Promise<KuadrantService>): SideService => ({
  paths,
  load: async (overload) => (await import('./service.ts')).kuadrantMethods(await create(), overload),
});
