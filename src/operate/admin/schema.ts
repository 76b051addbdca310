import { ApiProblem } from './problem.ts';

type Flaw = ApiProblem['flaws'][number];

/**
 * The subset of JSON Schema that the API's bodies and parameters use. It validates them, and is part of the OpenAPI
 * document.
 */
export type Schema =
  | {
      readonly type: 'string';
      readonly minLength?: number;
      readonly maxLength: number;
      readonly enum?: readonly string[];
      /** Requires a character that is not blank. */
      readonly pattern?: '\\S';
      readonly description?: string;
    }
  | { readonly type: 'integer'; readonly minimum: number; readonly maximum: number; readonly description?: string }
  | {
      readonly type: 'array';
      readonly items: Schema;
      readonly minItems?: number;
      readonly maxItems: number;
      readonly description?: string;
    }
  | ObjectSchema;

export interface ObjectSchema {
  readonly type: 'object';
  readonly properties: Readonly<Record<string, Schema>>;
  readonly required: readonly string[];
  readonly additionalProperties: false;
  readonly description?: string;
}

/** The type of the values that a schema accepts. */
export type Valid<S> = S extends { readonly type: 'string' }
  ? string
  : S extends { readonly type: 'integer' }
    ? number
    : S extends { readonly type: 'array'; readonly items: infer I }
      ? readonly Valid<I>[]
      : S extends { readonly properties: infer P; readonly required: readonly (infer R)[] }
        ? { readonly [K in keyof P as K extends R ? K : never]: Valid<P[K]> } & {
            readonly [K in keyof P as K extends R ? never : K]?: Valid<P[K]>;
          }
        : never;

export const object = <P extends Readonly<Record<string, Schema>>, R extends keyof P & string>(
  properties: P,
  required: readonly R[],
) => ({ type: 'object', properties, required, additionalProperties: false }) as const;

/** The flaws of a value, at most `MAX_FLAWS`. */
function findFlaws(schema: Schema, value: unknown, at = ''): readonly Flaw[] {
  switch (schema.type) {
    case 'string': {
      if (typeof value !== 'string') return [flaw(at, `must be a string, got ${jsonKind(value)}`)];
      if (schema.enum && !schema.enum.includes(value)) return [flaw(at, `must be one of ${schema.enum.join(', ')}`)];
      if (value === '' && schema.minLength === 1) return [flaw(at, 'must not be empty')];
      if (value.length < (schema.minLength ?? 0))
        return [flaw(at, `must have at least ${schema.minLength} characters`)];
      if (schema.pattern === '\\S' && value.trim() === '') return [flaw(at, 'must not be blank')];
      return value.length > schema.maxLength ? [flaw(at, `must have at most ${schema.maxLength} characters`)] : [];
    }
    case 'integer': {
      const { minimum, maximum } = schema;
      const fits = typeof value === 'number' && Number.isInteger(value) && value >= minimum && value <= maximum;
      return fits ? [] : [flaw(at, `must be a whole number from ${minimum} to ${maximum}`)];
    }
    case 'array': {
      if (!Array.isArray(value)) return [flaw(at, `must be a list, got ${jsonKind(value)}`)];
      const { items, minItems = 0, maxItems } = schema;
      if (value.length < minItems || value.length > maxItems)
        return [flaw(at, `must have ${minItems} to ${maxItems} items, got ${value.length}`)];
      return value.flatMap((item, index) => findFlaws(items, item, `${at}/${index}`)).slice(0, MAX_FLAWS);
    }
    case 'object': {
      if (jsonKind(value) !== 'an object') return [flaw(at, `must be an object, got ${jsonKind(value)}`)];
      const fields = new Map(Object.entries(value as object)); // as just checked
      const { properties, required } = schema;
      const unknown = [...fields.keys()]
        .filter((name) => !Object.hasOwn(properties, name))
        .map((name) => flaw(`${at}/${escaped(name)}`, `unknown field; expected ${listNames(Object.keys(properties))}`));
      const missing = required.filter((name) => !fields.has(name)).map((name) => flaw(`${at}/${name}`, 'is required'));
      const unfit = Object.entries(properties).flatMap(([name, inner]) =>
        fields.has(name) ? findFlaws(inner, fields.get(name), `${at}/${name}`) : [],
      );
      return [...unknown, ...missing, ...unfit].slice(0, MAX_FLAWS);
    }
  }
}

const MAX_FLAWS = 20;
const MAX_NAME_LENGTH = 64;

const listNames = (names: readonly string[]): string => (names.length === 0 ? 'none' : `one of ${names.join(', ')}`);

const flaw = (at: string, detail: string): Flaw => ({ at, detail });
const escaped = (name: string): string => name.slice(0, MAX_NAME_LENGTH).replaceAll('~', '~0').replaceAll('/', '~1');

function jsonKind(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

/** @throws ApiProblem  400, with the flaws */
export function valid<S extends Schema>(schema: S, value: unknown, what: string): Valid<S> {
  const flaws = findFlaws(schema, value);
  if (flaws.length === 0) return value as Valid<S>; // as just checked
  const [first] = flaws;
  throw new ApiProblem(400, `${what} is not valid: ${first?.at === '' ? 'it' : first?.at} ${first?.detail}`, { flaws });
}

/** @throws ApiProblem  400: not JSON */
export function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch (error) {
    throw new ApiProblem(400, `the body is not JSON: ${error instanceof Error ? error.message : error}`);
  }
}
