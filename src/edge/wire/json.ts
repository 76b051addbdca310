import { fromStruct } from '../../protobuf/struct.ts';
import { JSON_NUMBER, JsonReader } from './json-reader.ts';
import type { RateLimitResponseJson } from './shapes.ts';
import {
  codeNumbers,
  findName,
  MAX_UINT32,
  maximumRequest,
  requestUnitNumbers,
  unitNumbers,
  type WireRequest,
  type WireResponse,
} from './wire.ts';

/** Reads the next value, which must not be null. */
type Read<T> = (from: JsonReader) => T;

/** A field, and its value if it is absent or null. */
interface Field<T> {
  readonly read: Read<T>;
  readonly absent: T;
}

const text: Field<string> = { read: (from) => from.string(maximumRequest.textLength), absent: '' };

const flag: Field<boolean> = {
  read: (from) => from.takes('true') || (!from.takes('false') && from.mismatch('true or false')),
  absent: false,
};

/** An integer, also in the form `5.0` or `1e3`, or a string of these, which proto3 accepts, too. */
function whole(from: JsonReader): bigint | undefined {
  const written = from.number() ?? from.shortString();
  if (written === undefined || !JSON_NUMBER.test(written)) return undefined;
  if (/^-?\d{1,20}$/.test(written)) return BigInt(written);
  const value = Number(written);
  return Number.isInteger(value) ? BigInt(value) : undefined;
}

const unsigned =
  (maximum: bigint): Read<number> =>
  (from) => {
    const { position } = from;
    const number = whole(from);
    const fits = number !== undefined && number >= 0n && number <= maximum;
    return fits ? Number(number) : from.mismatch(`a whole number from 0 to ${maximum}`, position);
  };
const uint32 = unsigned(BigInt(MAX_UINT32));
const uint64 = unsigned(0xffff_ffff_ffff_ffffn);

const unit: Read<number> = (from) => {
  const { position } = from;
  const name = from.shortString();
  if (name !== undefined && Object.hasOwn(requestUnitNumbers, name))
    return requestUnitNumbers[name as keyof typeof requestUnitNumbers]; // as just checked
  const number = name === undefined ? whole(from) : undefined;
  const isInt32 = number !== undefined && BigInt.asIntN(32, number) === number;
  return isInt32 ? Number(number) : from.mismatch(`one of ${Object.keys(requestUnitNumbers).join(', ')}`, position);
};

const list = <T>(maximum: number, what: string, item: Read<T>): Field<readonly T[]> => ({
  read: (from) => from.list(maximum, what, () => item(from)),
  absent: [],
});

/** A wrapper or a message that may be absent. */
export const optional = <T>(read: Read<T>): Field<T | null> => ({ read, absent: null });

const wrapped = (read: Read<number>): Field<{ readonly value: number } | null> =>
  optional((from) => ({ value: read(from) }));

/** A message: field names in .proto form or in camelCase; no duplicate or unknown fields. */
export function message<T extends object>(fields: { readonly [K in keyof T]: Field<T[K]> }): Read<T> {
  const rows = Object.entries(fields) as [keyof T & string, Field<T[keyof T & string]>][]; // in that type's order
  const bySpelling = new Map(
    rows.flatMap(([name, { read }], at) => [name, camelCase(name)].map((spelling) => [spelling, { name, read, at }])),
  );
  const absent = Object.fromEntries(rows.map(([name, field]) => [name, field.absent])) as T;
  const unknown = `unknown field; expected one of ${Object.keys(fields).join(', ')}`;
  return (from) => {
    const value = { ...absent };
    let seen = 0; // one bit per field
    from.object((written) => {
      const field = bySpelling.get(written);
      if (!field) return from.within(written, () => from.fail(unknown, ': '));
      const { name, read, at } = field;
      if (seen & (1 << at)) from.within(written, () => from.fail('duplicate field', ': '));
      seen |= 1 << at;
      from.within(name, () => {
        if (!from.takes('null')) value[name] = read(from);
      });
    });
    return value;
  };
}

export const request = message<WireRequest>({
  domain: text,
  descriptors: list(
    maximumRequest.descriptors,
    'descriptors',
    message<WireRequest['descriptors'][number]>({
      entries: list(
        maximumRequest.entries,
        'entries',
        message<{ key: string; value: string }>({ key: text, value: text }),
      ),
      limit: optional(
        message<NonNullable<WireRequest['descriptors'][number]['limit']>>({
          requests_per_unit: { read: uint32, absent: 0 },
          unit: { read: unit, absent: 0 },
          unit_multiplier: wrapped(uint32),
        }),
      ),
      hits_addend: wrapped(uint64),
      is_negative_hits: flag,
    }),
  ),
  hits_addend: { read: uint32, absent: 0 },
});

/** A body with nothing but this value. */
export const fromBody =
  <T>(read: Read<T>) =>
  (body: Buffer): T => {
    const from = new JsonReader(body);
    const value = read(from);
    from.end();
    return value;
  };

/**
 * Reads a RateLimitRequest in proto3's JSON mapping, strictly. Limits apply while reading: a request is refused at the
 * first limit that it exceeds, and is not read any further.
 *
 * @throws InvalidJson  not JSON, an unknown or duplicate field, a value of the wrong type or out of range, more than
 * `maximumRequest`
 * @see https://protobuf.dev/programming-guides/json/
 */
export const requestFromJson = fromBody(request);

/** Converts a RateLimitResponse to proto3's JSON mapping: camelCase, enums by name, defaults left out. */
export function responseToJson({
  overall_code,
  statuses,
  response_headers_to_add,
  raw_body,
  dynamic_metadata,
}: WireResponse): RateLimitResponseJson {
  return {
    overallCode: findName(codeNumbers, overall_code) ?? 'UNKNOWN',
    statuses: statuses.map(({ code, current_limit, limit_remaining, duration_until_reset }) => ({
      code: findName(codeNumbers, code) ?? 'UNKNOWN',
      ...(current_limit && {
        currentLimit: {
          ...(current_limit.name !== '' && { name: current_limit.name }),
          ...(current_limit.requests_per_unit !== 0 && { requestsPerUnit: current_limit.requests_per_unit }),
          ...(current_limit.unit !== 0 && { unit: findName(unitNumbers, current_limit.unit) ?? 'UNKNOWN' }),
          ...(current_limit.unit_multiplier && { unitMultiplier: current_limit.unit_multiplier.value }),
        },
      }),
      ...(limit_remaining !== 0 && { limitRemaining: limit_remaining }),
      ...(duration_until_reset && { durationUntilReset: `${duration_until_reset.seconds}s` }),
    })),
    ...(response_headers_to_add.length > 0 && {
      responseHeadersToAdd: response_headers_to_add.map(({ key, value }) => ({ key, value })),
    }),
    ...(raw_body?.length && { rawBody: raw_body.toString('base64') }),
    ...(dynamic_metadata && { dynamicMetadata: fromStruct(dynamic_metadata) }),
  };
}

function camelCase(name: string): string {
  return name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
}
