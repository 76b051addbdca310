import type { MessageTypeDefinition } from '@grpc/proto-loader';
import { type Block, reviveBlock } from '../../engine/rules/read/block.ts';
import type { OverlayFile } from '../../engine/rules/read/overlaid.ts';
import { type Place, type Problem, Problems } from '../../engine/rules/read/problem.ts';
import { type CheckedRules, checkBlocks, type LoadOptions } from '../../engine/rules/reload/load.ts';
import { loadProtos } from '../../protobuf/load.ts';
import { fromStruct, type WireStruct } from '../../protobuf/struct.ts';
import { CONFIG_TYPE_URL, type WireDiscoveryResponse } from './proto.ts';

/** ratelimit.config.ratelimit.v3.RateLimitConfig */
interface WireConfig {
  readonly name: string;
  readonly domain: string;
  readonly descriptors: readonly WireConfigDescriptor[];
}
/** ratelimit.config.ratelimit.v3.RateLimitDescriptor */
interface WireConfigDescriptor {
  readonly key: string;
  readonly value: string;
  readonly rate_limit: WireConfigPolicy | null;
  readonly descriptors: readonly WireConfigDescriptor[];
  readonly shadow_mode: boolean;
  readonly detailed_metric: boolean;
  readonly quota_mode: boolean;
  readonly metadata: WireStruct | null;
}
/** ratelimit.config.ratelimit.v3.RateLimitPolicy */
interface WireConfigPolicy {
  /** Name of RateLimitUnit, or the number of an unknown value. */
  readonly unit: string | number;
  readonly requests_per_unit: number;
  readonly unlimited: boolean;
  readonly name: string;
  readonly replaces: readonly { readonly name: string }[];
}

const CONFIG_TYPE = CONFIG_TYPE_URL.slice(CONFIG_TYPE_URL.lastIndexOf('/') + 1);
const definitions = loadProtos(['ratelimit/config/ratelimit/v3/rls_conf.proto'], 'names');

// a message in the file
const configMessage = definitions[CONFIG_TYPE] as MessageTypeDefinition<WireConfig, WireConfig>;

/**
 * Checks the rules in a control plane's answer, with one domain per resource, as if each resource were a rule file.
 * Reports the problems of all resources, of which any one prevents loading. An answer without resources is valid, and
 * has no rules.
 */
export function checkResources({ type_url: typeUrl, resources }: ResourceAnswer, options: LoadOptions): CheckedRules {
  if (typeUrl !== '' && !isConfigType(typeUrl)) return { ok: false, problems: [wrongType('response', typeUrl)] };
  const problems = new Problems();
  const blocks = resources.flatMap((resource, index) => readResource(resource, `resources[${index}]`, problems));
  return checkBlocks(blocks, problems.all, options, (found) => byResource(found, blocks, options.overlay ?? []));
}

/**
 * An answer in which the domains with problems are as they were before, or missing; undefined if a problem belongs to no
 * domain, so that it is unknown what the answer would have replaced.
 *
 * @param before  the answer in force
 */
export function withoutBroken<A extends ResourceAnswer>(
  answer: A,
  problems: readonly Problem[],
  before: ResourceAnswer | undefined,
): A | undefined {
  const files = new Set(problems.flatMap(({ file, severity }) => (severity === 'error' ? file : [])));
  const all = readDomains(answer);
  const broken = new Set(all.flatMap(({ file, domain }) => (file !== undefined && files.has(file) ? domain : [])));
  const known = new Set(all.map(({ file }) => file));
  if (broken.has('') || ![...files].every((file) => known.has(file))) return undefined;
  const sound = all.filter(({ domain }) => !broken.has(domain));
  const kept = before ? readDomains(before).filter(({ domain }) => broken.has(domain)) : [];
  return { ...answer, resources: [...sound, ...kept].map(({ resource }) => resource) };
}

const readDomains = ({ resources }: ResourceAnswer) =>
  resources.map((resource, index) => {
    const [block] = readResource(resource, `resources[${index}]`, new Problems());
    return { resource, file: block?.place().file, domain: block?.values.domain ?? '' };
  });

/** The parts of a control plane's answer that hold rules. */
type ResourceAnswer = Pick<WireDiscoveryResponse, 'type_url' | 'resources'>;

/**
 * Orders problems by resource. Resources that could not be decoded come first, then the others in order, then the
 * overlay, so that the first problem is the one that envoyproxy/ratelimit reports.
 */
function byResource(
  problems: readonly Problem[],
  blocks: readonly Block<'file'>[],
  overlay: readonly OverlayFile[],
): readonly Problem[] {
  const names = [...blocks.map((block) => block.place().file), ...overlay.map(({ name }) => name)];
  const ranks = new Map(names.map((name, rank) => [name, rank]));
  const fileRank = ({ file }: Problem): number => ranks.get(file) ?? -1;
  return problems.toSorted((one, other) => fileRank(one) - fileRank(other));
}

/** @param fallbackName  name for messages if the resource has none or cannot be decoded */
function readResource(
  { type_url: typeUrl, value }: WireDiscoveryResponse['resources'][number],
  fallbackName: string,
  problems: Problems,
): Block<'file'>[] {
  if (!isConfigType(typeUrl)) {
    problems.add([wrongType(fallbackName, typeUrl)]);
    return [];
  }
  let config: WireConfig;
  try {
    config = configMessage.deserialize(Buffer.from(value));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    problems.add([errorIn(fallbackName, `cannot be decoded as ${CONFIG_TYPE}: ${reason}`)]);
    return [];
  }
  return [readConfig(config, { file: config.name || fallbackName, line: undefined, path: '' })];
}

/** Compares the part after the last slash of a type URL, which alone identifies the type. */
const isConfigType = (typeUrl: string): boolean => typeUrl.slice(typeUrl.lastIndexOf('/') + 1) === CONFIG_TYPE;

const wrongType = (file: string, typeUrl: string): Problem =>
  errorIn(file, `mismatched message type: expected ${CONFIG_TYPE_URL}, got '${typeUrl}'`);

const errorIn = (file: string, message: string): Problem => ({
  file,
  line: undefined,
  path: '',
  severity: 'error',
  message,
});

const readConfig = ({ domain, descriptors }: WireConfig, place: Place): Block<'file'> =>
  reviveBlock('file', { domain, descriptors: descriptors.map(toValues) }, place);

/** The values of a descriptor, as in a rule file. */
const toValues = ({ rate_limit: policy, metadata, descriptors, ...own }: WireConfigDescriptor): object => ({
  ...own,
  ...(policy && { rate_limit: { ...policy, unit: String(policy.unit) } }),
  ...(metadata && { metadata: fromStruct(metadata) }),
  descriptors: descriptors.map(toValues),
});
