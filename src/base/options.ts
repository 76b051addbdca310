import { nearest } from './nearest.ts';

/** The options that an object may have, by name. */
export type OptionShape = Readonly<Record<string, OptionKind>>;

/** The values of an option, apart from `undefined`. */
export interface OptionKind {
  /** Completes "expected …". */
  readonly expected: string;
  readonly fits: (value: unknown) => boolean;
  /** The options of a value that is an object. */
  readonly shape?: OptionShape;
  readonly isRequired?: true;
}

/** An option that cannot be used. */
interface WrongOption {
  /** Its name: `store.redis`. */
  readonly option: string;
  readonly problem: string;
}

/** An option whose values are checked elsewhere. */
export const any: OptionKind = { expected: 'a value', fits: () => true };
export const flag: OptionKind = { expected: 'true or false', fits: (value) => typeof value === 'boolean' };
export const text: OptionKind = { expected: 'a string', fits: (value) => typeof value === 'string' };
export const action: OptionKind = { expected: 'a function', fits: (value) => typeof value === 'function' };
export const count: OptionKind = {
  expected: 'a number of at least 0',
  fits: (value) => typeof value === 'number' && value >= 0,
};
export const oneOf = (...words: readonly string[]): OptionKind => ({
  expected: either(words.map(quoted)),
  fits: (value) => words.some((word) => word === value),
});

/** An object with these options, or one of the values `or`. @param needs  options of which one is required */
export function object(
  shape: OptionShape,
  { needs = [], or = [] }: { readonly needs?: readonly string[]; readonly or?: readonly unknown[] } = {},
): OptionKind {
  const names = needs.length > 0 ? either(needs) : Object.keys(shape).join(', ');
  return {
    expected: either([...or.map(quoted), `an object with ${names}`]),
    fits: (value) =>
      or.includes(value) || (isObject(value) && (needs.length === 0 || needs.some((name) => name in value))),
    shape,
  };
}

/** An instance of a class, or a module, that has all these properties. */
export const having = (...names: readonly string[]): OptionKind => ({
  expected: `an object with ${names.join(', ')}`,
  fits: (value) => isObject(value) && names.every((name) => name in value),
});

export const required = (kind: OptionKind): OptionKind => ({ ...kind, isRequired: true });

/** The first option that has another name or kind than its shape, without the value, which may be a secret. */
export function findWrongOption(given: unknown, shape: OptionShape, path = ''): WrongOption | undefined {
  if (!isObject(given)) return { option: path || 'options', problem: `expected an object, got ${kindOf(given)}` };
  const values: Readonly<Record<string, unknown>> = { ...given };
  for (const [name, value] of Object.entries(values)) {
    const option = inside(path, name);
    const kind = Object.hasOwn(shape, name) ? shape[name] : undefined;
    if (!kind) return { option, problem: `no such option; ${suggestion(name, Object.keys(shape))}` };
    if (value === undefined) continue;
    const wrong = kind.shape && isObject(value) ? findWrongOption(value, kind.shape, option) : undefined;
    if (wrong) return wrong;
    if (!kind.fits(value)) return { option, problem: `expected ${kind.expected}, got ${kindOf(value)}` };
  }
  const missing = Object.keys(shape).find((name) => shape[name]?.isRequired && values[name] === undefined);
  if (missing === undefined) return undefined;
  return { option: inside(path, missing), problem: `expected ${shape[missing]?.expected}` };
}

const inside = (path: string, name: string): string => (path === '' ? name : `${path}.${name}`);

function suggestion(name: string, names: readonly string[]): string {
  const meant = nearest(name, names);
  return meant === undefined ? `expected one of ${names.join(', ')}` : `did you mean ${meant}?`;
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const either = (items: readonly string[]): string =>
  items.length < 2 ? items.join() : `${items.slice(0, -1).join(', ')} or ${items.at(-1)}`;

const quoted = (word: unknown): string => (typeof word === 'string' ? `'${word}'` : String(word));

function kindOf(value: unknown): string {
  if (typeof value === 'string') return /^[\w-]{0,20}$/.test(value) ? `'${value}'` : 'a string';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'function') return 'a function';
  if (isObject(value)) return 'then' in value ? 'a promise' : 'an object';
  return String(value);
}
