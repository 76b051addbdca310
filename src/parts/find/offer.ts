import { type Deciding, methodPaths, type SideService } from '../../edge/grpc/side-service.ts';

const paths = methodPaths('weir.v1.Rules', ['Find']);

/** Says which rule a descriptor matches, or why none does. */
export const offerFind = ({ decider }: { readonly decider: Pick<Deciding['decider'], 'rules'> }): SideService => ({
  paths,
  load: async (overload) => (await import('./methods.ts')).rulesMethods(decider.rules, overload),
});
