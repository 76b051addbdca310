import type { ServiceHost } from '../../h2/grpc/router.ts';
import { startTimer } from '../../h2/listen/timer.ts';
import { healthService } from '../rls/health-messages.ts';
import type { GrpcServerOptions } from './grpc-server.ts';
import { healthHandlers } from './health-service.ts';

/** Adds the health service. */
export function addHealth(host: ServiceHost, { health, onCallFinished }: GrpcServerOptions): void {
  host.addService(healthService, healthHandlers(health, onCallFinished));
}

/** The methods of `addReflection`. */
export const reflectionPaths = ['v1', 'v1alpha'].map(
  (version) => `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
);

/** The method of `addRules`. */
export const rulesPaths = ['/weir.v1.Rules/Find'];

/** Adds `weir.v1.Rules`. */
export async function addRules(host: ServiceHost, { rules, overload }: GrpcServerOptions): Promise<void> {
  if (!rules) return;
  const [{ rulesService }, { rulesHandlers }] = await Promise.all([
    import('../rls/proto.ts'),
    import('./rules-service.ts'),
  ]);
  host.addService(rulesService, rulesHandlers(rules, overload.queue.spend));
}

/** The methods of `addHolds`. */
export const holdsPaths = ['Acquire', 'Renew', 'Release', 'Reserve', 'Commit'].map(
  (method) => `/weir.v1.Holds/${method}`,
);

/** Adds `weir.v1.Holds`. */
export async function addHolds(host: ServiceHost, { holds }: GrpcServerOptions): Promise<void> {
  if (!holds) return;
  const [{ holdsService }, { holdsHandlers }] = await Promise.all([
    import('../rls/proto.ts'),
    import('./holds-service.ts'),
  ]);
  host.addService(holdsService, holdsHandlers(holds));
}

/** The methods of `addKuadrant`. */
export const kuadrantPaths = ['CheckRateLimit', 'Report', 'Reserve', 'Commit'].map(
  (method) => `/kuadrant.service.ratelimit.v1.RateLimitService/${method}`,
);

/** Adds `kuadrant.service.ratelimit.v1.RateLimitService`. */
export async function addKuadrant(host: ServiceHost, { kuadrant }: GrpcServerOptions): Promise<void> {
  if (!kuadrant) return;
  const [{ kuadrantService }, { kuadrantHandlers }] = await Promise.all([
    import('../rls/proto.ts'),
    import('./kuadrant-service.ts'),
  ]);
  host.addService(kuadrantService, kuadrantHandlers(kuadrant));
}

/** Adds the reflection service, `v1` and `v1alpha`. */
export async function addReflection(host: ServiceHost, options: GrpcServerOptions): Promise<void> {
  const { serveReflection } = await import('./reflection.ts');
  serveReflection(host, {
    paths: reflectionPaths,
    startTimer: options.startTimer ?? startTimer,
    hasQuotas: options.quotas !== undefined,
  });
}
