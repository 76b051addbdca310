import { type Deciding, methodPaths, type SideService } from '../../edge/grpc/side-service.ts';
import type { KuadrantService } from './service.ts';

const paths = methodPaths('kuadrant.service.ratelimit.v1.RateLimitService', [
  'CheckRateLimit',
  'Report',
  'Reserve',
  'Commit',
]);

/** The service of Kuadrant's filter, loaded with its first call. */
export const offerKuadrant = ({ decider, onCommit, extras }: Deciding): SideService =>
  hostKuadrant(async () => {
    const [{ createKuadrantLimits }, { createKuadrantService }, { createReservations }] = await Promise.all([
      import('./limits.ts'),
      import('./service.ts'),
      import('../holds/reservations.ts'),
    ]);
    return createKuadrantService(createKuadrantLimits(decider, createReservations(decider, onCommit)), extras);
  });

export const hostKuadrant = (create: () => Promise<KuadrantService>): SideService => ({
  paths,
  load: async (overload) => (await import('./service.ts')).kuadrantMethods(await create(), overload),
});
