import type { Method } from '../../h2/grpc/method.ts';
import type { GrpcServerOptions } from './grpc-server.ts';

/** A service that is loaded when one of its methods is first called. */
interface SideService {
  /** The paths of its methods. */
  readonly paths: readonly string[];
  load(): Promise<readonly Method[]>;
}

const methodPaths = (service: string, methods: readonly string[]): readonly string[] =>
  methods.map((method) => `/${service}/${method}`);

const rulesPaths = methodPaths('weir.v1.Rules', ['Find']);
const holdsPaths = methodPaths('weir.v1.Holds', ['Acquire', 'Renew', 'Release', 'Reserve', 'Commit']);
const kuadrantPaths = methodPaths('kuadrant.service.ratelimit.v1.RateLimitService', [
  'CheckRateLimit',
  'Report',
  'Reserve',
  'Commit',
]);
const reflectionPaths = ['v1', 'v1alpha'].flatMap((version) =>
  methodPaths(`grpc.reflection.${version}.ServerReflection`, ['ServerReflectionInfo']),
);

/** Services besides decisions, health and quotas. */
export function sideServices(options: GrpcServerOptions): readonly SideService[] {
  const { rules, holds, kuadrant, overload, quotas, startTimer } = options;
  const offered: SideService[] = [];
  if (rules)
    offered.push({
      paths: rulesPaths,
      load: async () => (await import('./proto-services.ts')).rulesMethods(rules, overload),
    });
  if (holds)
    offered.push({
      paths: holdsPaths,
      load: async () => (await import('./proto-services.ts')).holdsMethods(holds, overload),
    });
  if (kuadrant)
    offered.push({
      paths: kuadrantPaths,
      load: async () => (await import('./proto-services.ts')).kuadrantMethods(kuadrant, overload),
    });
  offered.push({
    paths: reflectionPaths,
    async load() {
      const { reflectionMethods } = await import('./reflection.ts');
      return reflectionMethods({ paths: reflectionPaths, startTimer, hasQuotas: quotas !== undefined });
    },
  });
  return offered;
}
