import { anything, type JsonShape } from '../../base/shape.ts';
import { ApiProblem } from './problem.ts';

type Flaw = ApiProblem['flaws'][number];

/** An object of a request, which may have no other fields. */
export const closed = <T>(shape: JsonShape<T>): JsonShape<T> => ({ ...shape, additionalProperties: false });

/** The flaws of a value, at most `MAX_FLAWS`. */
function findFlaws(shape: JsonShape<unknown>, value: unknown, at = ''): readonly Flaw[] {
  switch (shape.type) {
    case 'string': {
      const { minLength = 0, maxLength = Number.POSITIVE_INFINITY } = shape;
      if (typeof value !== 'string') return [flaw(at, `must be a string, got ${jsonKind(value)}`)];
      if (shape.enum && !shape.enum.includes(value)) return [flaw(at, `must be one of ${shape.enum.join(', ')}`)];
      if (value === '' && minLength === 1) return [flaw(at, 'must not be empty')];
      if (value.length < minLength) return [flaw(at, `must have at least ${minLength} characters`)];
      if (shape.pattern === '\\S' && value.trim() === '') return [flaw(at, 'must not be blank')];
      return value.length > maxLength ? [flaw(at, `must have at most ${maxLength} characters`)] : [];
    }
    case 'boolean':
      return typeof value === 'boolean' ? [] : [flaw(at, `must be true or false, got ${jsonKind(value)}`)];
    case 'integer': {
      const { minimum = 0, maximum = Number.MAX_SAFE_INTEGER } = shape;
      const fits = typeof value === 'number' && Number.isInteger(value) && value >= minimum && value <= maximum;
      return fits ? [] : [flaw(at, `must be a whole number from ${minimum} to ${maximum}`)];
    }
    case 'array': {
      if (!Array.isArray(value)) return [flaw(at, `must be a list, got ${jsonKind(value)}`)];
      const { items = anything, minItems = 0, maxItems = Number.POSITIVE_INFINITY } = shape;
      if (value.length < minItems || value.length > maxItems)
        return [flaw(at, `must have ${minItems} to ${maxItems} items, got ${value.length}`)];
      return value.flatMap((item, index) => findFlaws(items, item, `${at}/${index}`)).slice(0, MAX_FLAWS);
    }
    case 'object': {
      if (jsonKind(value) !== 'an object') return [flaw(at, `must be an object, got ${jsonKind(value)}`)];
      const fields = new Map(Object.entries(value as object)); // as just checked
      const { properties = {}, required = [] } = shape;
      const unknown = [...fields.keys()]
        .filter((name) => !Object.hasOwn(properties, name))
        .map((name) => flaw(`${at}/${escaped(name)}`, `unknown field; expected ${listNames(Object.keys(properties))}`));
      const missing = required.filter((name) => !fields.has(name)).map((name) => flaw(`${at}/${name}`, 'is required'));
      const unfit = Object.entries(properties).flatMap(([name, inner]) =>
        fields.has(name) ? findFlaws(inner, fields.get(name), `${at}/${name}`) : [],
      );
      return [...unknown, ...missing, ...unfit].slice(0, MAX_FLAWS);
    }
    default:
      throw new TypeError(`requests have no values of type ${shape.type}`);
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
export function valid<T>(shape: JsonShape<T>, value: unknown, what: string): T {
  const flaws = findFlaws(shape, value);
  if (flaws.length === 0) return value as T; // as just checked
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
