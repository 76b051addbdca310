import { shouldRateLimit } from '../../src/edge/rls/proto.ts';
import { DOMAIN } from './rules.ts';

/** A length-delimited Protobuf field. */
export function field(number: number, bytes: Uint8Array): Buffer {
  return Buffer.concat([varint((number << 3) | 2), varint(bytes.length), bytes]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 0x80);
  return Buffer.of(...bytes, rest);
}

/** `unit`, repeated `count` times. */
export const repeated = (count: number, unit: Uint8Array): Buffer => Buffer.alloc(count * unit.length, unit);

/** An entry, as a field of a descriptor. */
export const entry = (key: string, value: string): Buffer =>
  field(1, Buffer.concat([field(1, Buffer.from(key)), field(2, Buffer.from(value))]));

/** A descriptor with these entries, as a field of a request. */
export const descriptor = (...entries: readonly Buffer[]): Buffer => field(2, Buffer.concat(entries));

/** The domain of the rules, as a field of a request. */
export const DOMAIN_FIELD = field(1, Buffer.from(DOMAIN));

/** A request, by default to the attack's domain. */
export const request = (descriptors: readonly Buffer[], domain = DOMAIN): Buffer =>
  Buffer.concat([field(1, Buffer.from(domain)), ...descriptors]);

/** A typical request of a proxy, one descriptor with one entry. */
export const ordinaryMessage = (user: string): Buffer =>
  shouldRateLimit.requestSerialize({
    domain: DOMAIN,
    descriptors: [{ entries: [{ key: 'user', value: user }], limit: null, hits_addend: null, is_negative_hits: false }],
    hits_addend: 1,
  });

/** A request's own limit, as a field of a descriptor. */
export const createLimit = (requestsPerUnit: number, unit: number): Buffer =>
  field(2, Buffer.concat([varintField(1, requestsPerUnit), varintField(2, unit)]));

/** A proxy's usage of a bucket with these pairs, as a field of a report. */
export const usage = (...pairs: readonly Buffer[]): Buffer =>
  field(2, Buffer.concat([field(1, Buffer.concat(pairs)), field(2, varintField(1, 5)), varintField(3, 1)]));

export const varintField = (number: number, value: number): Buffer =>
  Buffer.concat([varint(number << 3), varint(value)]);
