import type { GrpcServerOptions } from './grpc-server.ts';
import { methodPaths, type SideService } from './side-service.ts';

const rulesPaths = methodPaths('weir.v1.Rules', ['Find']);
const holdsPaths = methodPaths('weir.v1.Holds', ['Acquire', 'Renew', 'Release', 'Reserve', 'Commit']);

/** Services besides decisions and health. */
export function sideServices(options: Pick<GrpcServerOptions, 'rules' | 'holds' | 'others'>): readonly SideService[] {
  const { rules, holds, others = [] } = options;
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
  return offered;
}
