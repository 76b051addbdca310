import type { GrpcServerOptions } from './grpc-server.ts';
import { methodPaths, type SideService } from './side-service.ts';

const rulesPaths = methodPaths('weir.v1.Rules', ['Find']);

/** Services besides decisions and health. */
export function sideServices({
  rules,
  others = [],
}: Pick<GrpcServerOptions, 'rules' | 'others'>): readonly SideService[] {
  if (!rules) return others;
  const load: SideService['load'] = async (overload) =>
    (await import('./proto-services.ts')).rulesMethods(rules, overload);
  return [...others, { paths: rulesPaths, load }];
}
