import { fromStruct } from '../rls/struct.ts';
import { nameOf, unitNumbers } from '../rls/wire.ts';
import type { Shape } from '../rules/format.ts';
import { type LoadedRules, loadBlocks } from '../rules/load.ts';
import { type Place, type Problem, pathOfKey } from '../rules/problem.ts';
import type { Block } from '../rules/read.ts';
import {
  CONFIG_TYPE,
  CONFIG_TYPE_URL,
  configMessage,
  type WireAny,
  type WireConfig,
  type WireDescriptor,
  type WireDiscoveryResponse,
  type WirePolicy,
} from './proto.ts';

/**
 * Compiles the rules in a control plane's answer, one domain a resource, as if each were a rule file. All problems of all resources
 * are found in one go, those of the first resource first; one anywhere and nothing is loaded. No resources: no rules, which is right.
 *
 * @param mergeDomains  resources of the same domain are put together, in the order given, instead of refused
 */
export function loadResources(
  { type_url: typeUrl, resources }: Pick<WireDiscoveryResponse, 'type_url' | 'resources'>,
  { mergeDomains }: { readonly mergeDomains: boolean },
): LoadedRules {
  if (typeUrl !== '' && !isConfig(typeUrl)) {
    return { ok: false, problems: [problemOf('the answer', `wanted resources of ${CONFIG_TYPE_URL}, got '${typeUrl}'`)] };
  }
  const problems: Problem[] = [];
  const blocks = resources.flatMap((resource, index) => readResource(resource, `resources[${index}]`, problems));
  const names = resources.map((_, index) => `resources[${index}]`);
  return loadBlocks(blocks, { mergeDomains, problems });
}
