import type { GrpcServerOptions } from './grpc-server.ts';
import { methodPaths, type SideService } from './side-service.ts';

const rulesPaths = methodPaths('weir.v1.Rules', ['Find']);
const holdsPaths = methodPaths('weir.v1.Holds', ['Acquire', 'Renew', 'Release', 'Reserve', 'Commit']);
const reflectionPaths = ['v1', 'v1alpha'].flatMap((version) =>
  methodPaths(`grpc.reflection.${version}.ServerReflection`, ['ServerReflectionInfo']),
);

/** Services besides decisions and health. */
export function sideServices(options: GrpcServerOptions): readonly SideService[] {
  const { rules, holds, startTimer, others = [] } = options;
  const offered: SideService[] = [...others];
  if (rules)
    offered.push({
      paths: rulesPaths,
      load: async (overload) => (await import('./proto-services.ts')).rulesMethods(rules, overload),
    });
  if (holds)
    offered.push({
      paths: holdsPaths,
      load: async (overload) => (await import('./proto-services.ts')).holdsMethods(holds, overload),
    });
  offered.push({
    paths: reflectionPaths,
    async load() {
      const { reflectionMethods } = await import('./reflection.ts');
      return reflectionMethods({ paths: reflectionPaths, startTimer, offered: others.flatMap(({ paths }) => paths) });
    },
  });
  return offered;
}
