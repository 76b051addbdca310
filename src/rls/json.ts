import { parse, stringify } from 'lossless-json';
import { fromStruct } from './struct.ts';
import { codeNumbers, MAX_UINT32, nameOf, unitNumbers, type WireRequest, type WireResponse } from './wire.ts';

/** A JSON text is no RateLimitRequest: what was wanted where, and what came. */
export class InvalidJson extends Error {
  override readonly name = 'InvalidJson';
}

/** Turns a JSON value at a path into a field's value; `undefined` and `null` into the field's default. */
type Read<T> = (value: unknown, path: string) => T;

const text: Read<string> = (value = '', path) => {
  if (typeof value !== 'string') return wrong(path, 'a string', value);
  return /\p{Surrogate}/u.test(value) ? wrong(path, 'text without halves of surrogate pairs', value) : value;
};
const flag: Read<boolean> = (value = false, path) =>
  typeof value === 'boolean' ? value : wrong(path, 'true or false', value);

/** A whole number: as such (integers are read as bigint, `5.0` and `1e3` as number), or as decimal text, which proto3 takes too. */
function whole(value: unknown): bigint | undefined {
  if (typeof value === 'bigint') return value;
  if (typeof value === 'number') return Number.isInteger(value) ? BigInt(value) : undefined;
  return typeof value === 'string' && /^-?\d{1,20}$/.test(value) ? BigInt(value) : undefined;
}

const unsigned =
  (maximum: bigint): Read<number> =>
  (value = 0n, path) => {
    const number = whole(value);
    const fits = number !== undefined && number >= 0n && number <= maximum;
    return fits ? Number(number) : wrong(path, `a whole number from 0 to ${maximum}`, value);
  };
const uint32 = unsigned(BigInt(MAX_UINT32));
const uint64 = unsigned(0xffff_ffff_ffff_ffffn);

const { WEEK: _, ...namedUnits } = unitNumbers; // an override's enum has no name for weeks, only the number
const unit: Read<number> = (value = 0n, path) => {
  if (typeof value === 'string' && Object.hasOwn(namedUnits, value))
    return namedUnits[value as keyof typeof namedUnits]; // just found
  const number = typeof value === 'string' ? undefined : whole(value);
  const isInt32 = number !== undefined && BigInt.asIntN(32, number) === number;
  return isInt32 ? Number(number) : wrong(path, `one of ${Object.keys(namedUnits).join(', ')}`, value);
};

const list =
  <T>(item: Read<T>): Read<readonly T[]> =>
  (value = [], path) =>
    Array.isArray(value)
      ? value.map((one, at) => item(one ?? wrong(`${path}[${at}]`, 'an object', one), `${path}[${at}]`))
      : wrong(path, 'a list', value);

/** A wrapper or a message that may be absent. */
const optional =
  <T>(read: Read<T>): Read<T | null> =>
  (value, path) =>
    value === undefined ? null : read(value, path);

const wrapped =
  (read: Read<number>): Read<{ readonly value: number }> =>
  (value, path) => ({ value: read(value, path) });

/** A message: every field by its .proto name or in camelCase, none twice, none unknown. */
const message =
  <T extends object>(fields: { readonly [K in keyof T]: Read<T[K]> }): Read<T> =>
  (value, path) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return wrong(path, 'an object', value);
    const found = new Map<string, unknown>();
    for (const [written, one] of Object.entries(value)) {
      const name = Object.hasOwn(fields, written)
        ? written
        : Object.keys(fields).find((field) => camelCase(field) === written);
      if (name === undefined)
        throw new InvalidJson(`${join(path, written)}: unknown field; wanted one of ${Object.keys(fields).join(', ')}`);
      if (found.has(name)) throw new InvalidJson(`${join(path, written)}: the field is there twice`);
      found.set(name, one ?? undefined);
    }
    const read = Object.entries(fields) as [string, Read<unknown>][];
    return Object.fromEntries(read.map(([name, field]) => [name, field(found.get(name), join(path, name))])) as T; // field by field
  };

const request = message<WireRequest>({
  domain: text,
  descriptors: list(
    message<WireRequest['descriptors'][number]>({
      entries: list(message<{ key: string; value: string }>({ key: text, value: text })),
      limit: optional(
        message<NonNullable<WireRequest['descriptors'][number]['limit']>>({
          requests_per_unit: uint32,
          unit,
          unit_multiplier: optional(wrapped(uint32)),
        }),
      ),
      hits_addend: optional(wrapped(uint64)),
      is_negative_hits: flag,
    }),
  ),
  hits_addend: uint32,
});

/**
 * Reads a RateLimitRequest in proto3's JSON mapping, strictly.
 *
 * @throws InvalidJson  no JSON, an unknown field, a value of the wrong type or out of range
 * @see https://protobuf.dev/programming-guides/json/
 */
export function requestFromJson(body: string): WireRequest {
  let value: unknown;
  try {
    value = parse(body, undefined, (written) => (/^-?\d{1,20}$/.test(written) ? BigInt(written) : Number(written)));
  } catch (error) {
    throw new InvalidJson(`not JSON: ${error instanceof Error ? error.message : error}`);
  }
  return request(value, '');
}

/** Writes a RateLimitResponse in proto3's JSON mapping: camelCase, enums by name, defaults left out. */
export function responseToJson({
  overall_code,
  statuses,
  response_headers_to_add,
  dynamic_metadata,
}: WireResponse): object {
  return {
    overallCode: nameOf(codeNumbers, overall_code),
    statuses: statuses.map(({ code, current_limit, limit_remaining, duration_until_reset }) => ({
      code: nameOf(codeNumbers, code),
      ...(current_limit && {
        currentLimit: {
          ...(current_limit.name !== '' && { name: current_limit.name }),
          ...(current_limit.requests_per_unit !== 0 && { requestsPerUnit: current_limit.requests_per_unit }),
          ...(current_limit.unit !== 0 && { unit: nameOf(unitNumbers, current_limit.unit) }),
          ...(current_limit.unit_multiplier && { unitMultiplier: current_limit.unit_multiplier.value }),
        },
      }),
      ...(limit_remaining !== 0 && { limitRemaining: limit_remaining }),
      ...(duration_until_reset && { durationUntilReset: `${duration_until_reset.seconds}s` }),
    })),
    ...(response_headers_to_add.length > 0 && {
      responseHeadersToAdd: response_headers_to_add.map(({ key, value }) => ({ key, value })),
    }),
    ...(dynamic_metadata && { dynamicMetadata: fromStruct(dynamic_metadata) }),
  };
}

const camelCase = (name: string): string => name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
const join = (path: string, name: string): string => (path === '' ? name : `${path}.${name}`);

function wrong(path: string, wanted: string, got: unknown): never {
  throw new InvalidJson(
    `${path === '' ? 'the body' : path} must be ${wanted}, got ${stringify(typeof got === 'string' ? got.slice(0, 100) : got)?.slice(0, 100)}`,
  );
}
