import { appended } from '../../engine/decide/appended.ts';
import { createInterner } from '../../protobuf/interner.ts';
import { ProtoReader, WireType } from '../../protobuf/reader.ts';
import type { WireStruct, WireValue } from '../../protobuf/struct.ts';
import { ProtoWriter } from '../../protobuf/writer.ts';
import {
  maximumRequest,
  type WireDescriptor,
  type WireLimit,
  type WireRequest,
  type WireRequestLimit,
  type WireResponse,
  type WireStatus,
} from '../wire/wire.ts';

/**
 * Hand-written codec of RateLimitRequest and RateLimitResponse, with the results of protobufjs and fewer allocations.
 * Field numbers are those in proto/; test/edge/rls/messages.test.ts compares both directions with protobufjs.
 */

const reader = new ProtoReader(createInterner());
/** Shared writer for answers, each of which is sent before the next is written. */
export const responseWriter = new ProtoWriter();
const writer = responseWriter;

const { textLength } = maximumRequest;

/** A request that exceeds `maximumRequest`, and was not read to its end. */
class RequestTooLarge extends Error {}

/**
 * Decodes the RateLimitRequest in `bytes` from `from` to `to`, up to the first limit of `maximumRequest` that it
 * exceeds.
 *
 * @throws RangeError if the protobuf is malformed
 */
export function readRateLimitRequest(bytes: Buffer, from: number, to: number): WireRequest {
  try {
    return readRequest(bytes, from, to);
  } catch (error) {
    if (!(error instanceof RequestTooLarge)) throw error;
    return { domain: '', descriptors: [], hits_addend: 0, problem: error.message };
  }
}

function readRequest(bytes: Buffer, from: number, to: number): WireRequest {
  let domain = '';
  let descriptors: WireDescriptor[] | undefined;
  let hits_addend = 0;
  reader.open(bytes, from, to);
  while (reader.at < to) {
    const tag = reader.tag();
    if (tag === ((1 << 3) | WireType.LENGTH)) domain = reader.text(textLength) ?? tooLong('domain');
    else if (tag === ((2 << 3) | WireType.LENGTH)) {
      const index = descriptors?.length ?? 0;
      if (index === maximumRequest.descriptors) tooLarge('descriptors', maximumRequest.descriptors, 'descriptors');
      descriptors = appended(descriptors, readDescriptor(reader.length(), index));
    } else if (tag === ((3 << 3) | WireType.VARINT)) hits_addend = reader.uint32();
    else reader.skip(tag);
  }
  return { domain, descriptors: descriptors ?? [], hits_addend };
}

function readDescriptor(end: number, index: number): WireDescriptor {
  let entries: { key: string; value: string }[] | undefined;
  let limit: WireRequestLimit | null = null;
  let hits_addend: { value: number } | null = null;
  let is_negative_hits = false;
  while (reader.at < end) {
    const tag = reader.tag();
    if (tag === ((1 << 3) | WireType.LENGTH)) {
      const place = entries?.length ?? 0;
      if (place === maximumRequest.entries)
        tooLarge(`descriptors[${index}].entries`, maximumRequest.entries, 'entries');
      entries = appended(entries, readEntry(reader.length(), index, place));
    } else if (tag === ((2 << 3) | WireType.LENGTH)) limit = readRequestLimit(reader.length(), limit);
    else if (tag === ((3 << 3) | WireType.LENGTH)) hits_addend = readWrapped(reader.length(), hits_addend, uint64);
    else if (tag === ((4 << 3) | WireType.VARINT)) is_negative_hits = reader.uint64() !== 0;
    else reader.skip(tag);
  }
  reader.close(end);
  return { entries: entries ?? [], limit, hits_addend, is_negative_hits };
}

function readEntry(end: number, descriptor: number, index: number): { key: string; value: string } {
  const entry = { key: '', value: '' };
  while (reader.at < end) {
    const tag = reader.tag();
    if (tag === ((1 << 3) | WireType.LENGTH))
      entry.key = reader.text(textLength) ?? tooLong(`descriptors[${descriptor}].entries[${index}].key`);
    else if (tag === ((2 << 3) | WireType.LENGTH))
      entry.value = reader.beginning(textLength); // clients choose values, and an error would let them pass
    else reader.skip(tag);
  }
  reader.close(end);
  return entry;
}

function tooLarge(what: string, maximum: number, unit: string): never {
  throw new RequestTooLarge(`${what} must have at most ${maximum} ${unit}, got more`);
}

const tooLong = (what: string): never => tooLarge(what, textLength, 'characters');

/** Reads a limit. A message field that occurs more than once is merged, here and below. */
function readRequestLimit(end: number, before: WireRequestLimit | null): WireRequestLimit {
  let { requests_per_unit, unit, unit_multiplier } = before ?? { requests_per_unit: 0, unit: 0, unit_multiplier: null };
  while (reader.at < end) {
    const tag = reader.tag();
    if (tag === ((1 << 3) | WireType.VARINT)) requests_per_unit = reader.uint32();
    else if (tag === ((2 << 3) | WireType.VARINT))
      unit = reader.uint32() | 0; // an enum is an int32
    else if (tag === ((3 << 3) | WireType.LENGTH))
      unit_multiplier = readWrapped(reader.length(), unit_multiplier, uint32);
    else reader.skip(tag);
  }
  reader.close(end);
  return { requests_per_unit, unit, unit_multiplier };
}

const uint32 = (): number => reader.uint32();
const uint64 = (): number => reader.uint64();

function readWrapped(end: number, before: { readonly value: number } | null, read: () => number): { value: number } {
  let value = before?.value ?? 0;
  while (reader.at < end) {
    const tag = reader.tag();
    if (tag === ((1 << 3) | WireType.VARINT)) value = read();
    else reader.skip(tag);
  }
  reader.close(end);
  return { value };
}

/** An encoded message in a shared buffer, valid until the next one is written. */
export interface EncodedMessage {
  readonly bytes: Buffer;
  /** Position of the message's end in the buffer. */
  readonly length: number;
}

/**
 * Encodes a RateLimitResponse.
 *
 * @param headroom  octets to leave free before the message
 */
export function writeRateLimitResponse(response: WireResponse, headroom: number): EncodedMessage {
  writer.start(headroom);
  writeResponse(response);
  return writer;
}

/** Writes the fields of a RateLimitResponse, which may be part of another message. */
export function writeResponse(response: WireResponse): void {
  writer.uint32Field(1, response.overall_code);
  for (const status of response.statuses) writeStatus(status);
  for (const { key, value } of response.response_headers_to_add) {
    const start = writer.begin(3);
    writer.textField(1, key);
    writer.textField(2, value);
    writer.end(start);
  }
  if (response.raw_body) writer.bytesField(5, response.raw_body);
  if (response.dynamic_metadata) writeStruct(6, response.dynamic_metadata);
}

/** @see https://protobuf.dev/reference/protobuf/google.protobuf/#struct */
function writeStruct(field: number, { fields }: WireStruct): void {
  const struct = writer.begin(field);
  for (const key in fields) {
    const value = fields[key] as WireValue; // its own key
    const entry = writer.begin(1);
    writer.textField(1, key);
    writeValue(2, value);
    writer.end(entry);
  }
  writer.end(struct);
}

function writeValue(field: number, value: WireValue): void {
  const start = writer.begin(field);
  if ('numberValue' in value) writer.doubleField(2, value.numberValue);
  else if ('stringValue' in value) writeTextValue(value.stringValue);
  else if ('boolValue' in value) writer.smallField(4, value.boolValue ? 1 : 0);
  else if ('structValue' in value) writeStruct(5, value.structValue);
  else if ('listValue' in value) writeList(6, value.listValue.values);
  else writer.smallField(1, 0);
  writer.end(start);
}

/** Writes a text even if it is empty, as it marks the field of the `oneof` that is set. */
function writeTextValue(text: string): void {
  if (text === '') writer.end(writer.begin(3));
  else writer.textField(3, text);
}

function writeList(field: number, values: readonly WireValue[]): void {
  const list = writer.begin(field);
  for (const value of values) writeValue(1, value);
  writer.end(list);
}

function writeStatus({ code, current_limit, limit_remaining, duration_until_reset }: WireStatus): void {
  const start = writer.begin(2);
  writer.uint32Field(1, code);
  if (current_limit) writeLimit(current_limit);
  writer.uint32Field(3, limit_remaining);
  if (duration_until_reset) {
    const duration = writer.begin(4);
    writer.uintField(1, duration_until_reset.seconds);
    writer.uint32Field(2, duration_until_reset.nanos);
    writer.end(duration);
  }
  writer.end(start);
}

function writeLimit({ name, requests_per_unit, unit, unit_multiplier }: WireLimit): void {
  const start = writer.begin(2);
  writer.uint32Field(1, requests_per_unit);
  writer.uint32Field(2, unit);
  writer.textField(3, name);
  if (unit_multiplier) {
    const multiplier = writer.begin(4);
    writer.uint32Field(1, unit_multiplier.value);
    writer.end(multiplier);
  }
  writer.end(start);
}
