import { unitOfNamed } from '../../holds/limits.ts';
import { type Alternatives, type Block, createBlock } from './block.ts';
import { mapChanged, type Requirement } from './node-source.ts';
import { type Place, type Problems, shown } from './problem.ts';

/** The key of the nodes that count requests without required keys: `missing=customer`. */
export const MISSING = 'missing';

/** The value of such a node: `customer`, `user_or_api_key`, `org_and_user`. */
export const missingName = ({ keys }: Pick<Requirement, 'keys'>): string =>
  keys.map((all) => all.join('_and_')).join('_or_');

/** Maximum number of different keys of a requirement. */
const MAX_KEYS = 30;

/** Replaces each `require` by a node whose limit counts the requests that lack the keys. Errors go to `problems`. */
export function replaceRequirements<B extends Block<'file'> | Block<'node'>>(block: B, problems: Problems): B {
  const { require: written, descriptors = [] }: Pick<Block<'node'>['values'], 'require' | 'descriptors'> = block.values;
  const below = mapChanged(descriptors, (node) => replaceRequirements(node, problems));
  if (written === undefined && below === descriptors) return block;
  const missing = written && readRequirement(written, block.place('require'), problems);
  const { require: _, ...values } = block.values;
  return { ...block, values: { ...values, descriptors: missing ? [...below, missing] : below } };
}

function readRequirement(
  written: Alternatives | Block<'require'>,
  place: Place,
  problems: Problems,
): Block<'node'> | undefined {
  const {
    values,
    invalid,
    place: placeOf,
  } = 'place' in written ? written : createBlock<'require'>({ keys: written }, place);
  const { keys, limit, otherwise = 'refuse', per = [] } = values;
  const before = problems.all.length;
  const report = (key: keyof typeof values, message: string): void => problems.error(placeOf(key), message);
  if (keys) for (const problem of keyProblems(keys)) report('keys', problem);
  else if (!invalid.has('keys')) report('keys', 'keys must be a list such as [customer], got none');
  const choice = (['refuse', 'allow'] as const).find((one) => one === otherwise);
  if (!choice) report('otherwise', `otherwise must be refuse or allow, got '${otherwise}'`);
  if (limit && values.otherwise !== undefined)
    report('otherwise', 'otherwise cannot be used with limit: remove one of them');
  if (!limit && per.length > 0 && !invalid.has('limit')) report('per', 'per goes with limit, got no limit');
  const twice = per.find((key, at) => key === '' || per.indexOf(key) !== at);
  if (twice !== undefined) report('per', `per needs different keys, got '${shown(twice)}' twice, or an empty one`);
  if (limit && unitOfNamed(limit.values.algorithm) === 'slots')
    problems.error(limit.place('algorithm'), 'in_flight cannot be used here: nothing releases its slots');
  if (!keys || !choice || invalid.size > 0 || problems.all.length > before) return undefined;
  const counted = limit ?? createBlock<'rate_limit'>(choice === 'allow' ? { unlimited: true } : REFUSAL, place);
  return missingNode({ keys, otherwise: limit ? 'limit' : choice, per }, counted, place);
}

/** Refuses every hit, even while the store cannot be reached. */
const REFUSAL = { unit: 'minute', requests_per_unit: 0, on_store_failure: 'deny' } as const;

function* keyProblems(keys: Alternatives): Iterable<string> {
  const all = keys.flat();
  const unfit = all.find((key) => key === '' || key.includes('*'));
  if (unfit !== undefined) yield `required keys are literal and not empty, got '${shown(unfit)}'`;
  const count = new Set(all).size;
  if (count > MAX_KEYS) yield `at most ${MAX_KEYS} keys can be required, got ${count}`;
}

/** The node, with a level below it for each key of `per`, the last of which has the limit. */
function missingNode(required: Requirement, limit: Block<'rate_limit'>, place: Place): Block<'node'> {
  let below: Block<'node'>['values'] = { rate_limit: limit };
  for (const key of required.per.toReversed()) below = { descriptors: [createBlock<'node'>({ key, ...below }, place)] };
  const values = { key: MISSING, value: missingName(required), ...below, required };
  return createBlock<'node'>(values, place);
}
