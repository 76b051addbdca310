import type { Entry } from '../../engine/rules/match/match.ts';
import { createInterner } from '../../protobuf/interner.ts';
import { ProtoReader, WireType } from '../../protobuf/reader.ts';
import { ProtoWriter } from '../../protobuf/writer.ts';

/** The messages of proto/envoy/service/rate_limit_quota/v3/rlqs.proto. */

/** A report of all buckets of a proxy, whose usages are decoded one by one. */
export interface UsageReport {
  readonly bytes: Buffer;
  /** Domain; empty if the message has none. */
  readonly domain: string;
  /** Offsets at which each usage begins and ends, in pairs. */
  readonly positions: Uint32Array;
}

/** A report with more fields than its reader accepts. */
export class ReportTooLong extends Error {}

export interface BucketUsage {
  readonly pairs: readonly Entry[];
  readonly elapsedMs: number;
  /** Allowed and denied requests. */
  readonly requests: number;
  readonly allowed: number;
}

/** The action that a proxy takes for a bucket. */
export type BucketAction =
  | { readonly kind: 'allow' | 'deny'; readonly pairs: readonly Entry[]; readonly ttlMs: number }
  | { readonly kind: 'abandon'; readonly pairs: readonly Entry[] }
  | {
      readonly kind: 'token_bucket';
      readonly pairs: readonly Entry[];
      readonly ttlMs: number;
      readonly maxTokens: number;
      readonly tokensPerFill: number;
      readonly fillMs: number;
    };

/** Limits of a bucket id; a usage that exceeds them is not decoded. */
const bucketLimits = { maxPairs: 16, maxTextLength: 1_024 } as const;

const LENGTH = (field: number): number => (field << 3) | WireType.LENGTH;
const VARINT = (field: number): number => (field << 3) | WireType.VARINT;
/** Maximum size of a usage, with all its texts at four bytes per character, and their tags. */
const MAX_USAGE_BYTES = 2 * bucketLimits.maxPairs * (4 * bucketLimits.maxTextLength + 16);
const MAX_ELAPSED_SECONDS = 1_000_000_000;

const reader = new ProtoReader(createInterner());
const writer = new ProtoWriter();

/**
 * @param maxFields      maximum number of fields, usages and others
 * @throws RangeError     if the message is malformed
 * @throws ReportTooLong  if it has more fields
 */
export function readUsageReport(bytes: Buffer, maxFields: number): UsageReport {
  const positions: number[] = [];
  let domain = '';
  let fields = 0;
  reader.open(bytes, 0, bytes.length);
  while (reader.at < bytes.length) {
    if (++fields > maxFields) throw new ReportTooLong(`a report may have at most ${maxFields} fields`);
    const tag = reader.tag();
    if (tag === LENGTH(1)) domain = reader.text(bytes.length) ?? '';
    else if (tag === LENGTH(2)) {
      const end = reader.length();
      positions.push(reader.at, end);
      reader.at = end;
    } else reader.skip(tag);
  }
  return { bytes, domain, positions: Uint32Array.from(positions) };
}

/**
 * @returns undefined if the bucket id exceeds `bucketLimits`, or has no pair
 * @throws RangeError if the message is malformed
 */
export function readBucketUsage(bytes: Buffer, from: number, to: number): BucketUsage | undefined {
  if (to - from > MAX_USAGE_BYTES) return undefined;
  let pairs: readonly Entry[] | undefined = [];
  let [elapsedMs, allowed, denied] = [0, 0, 0];
  reader.open(bytes, from, to);
  while (reader.at < to) {
    const tag = reader.tag();
    if (tag === LENGTH(1)) pairs = readPairs();
    else if (tag === LENGTH(2)) elapsedMs = readDurationMs();
    else if (tag === VARINT(3)) allowed += reader.uint64();
    else if (tag === VARINT(4)) denied += reader.uint64();
    else reader.skip(tag);
    if (!pairs) return undefined;
  }
  return pairs.length > 0 ? { pairs, elapsedMs, requests: allowed + denied, allowed } : undefined;
}

function readPairs(): readonly Entry[] | undefined {
  const pairs = new Map<string, string>();
  const end = reader.length();
  while (reader.at < end) {
    const tag = reader.tag();
    if (tag !== LENGTH(1)) {
      reader.skip(tag);
      continue;
    }
    const pair = readPair();
    if (!pair) return undefined;
    pairs.set(pair.key, pair.value);
    if (pairs.size > bucketLimits.maxPairs) return undefined;
  }
  reader.close(end);
  return Array.from(pairs, ([key, value]) => ({ key, value }));
}

function readPair(): Entry | undefined {
  const pair = { key: '', value: '' };
  const end = reader.length();
  while (reader.at < end) {
    const tag = reader.tag();
    const name = tag === LENGTH(1) ? 'key' : tag === LENGTH(2) ? 'value' : undefined;
    if (!name) {
      reader.skip(tag);
      continue;
    }
    const text = reader.text(bucketLimits.maxTextLength);
    if (text === undefined) return undefined;
    pair[name] = text;
  }
  reader.close(end);
  return pair;
}

/** Reads a duration; negative and unreasonable ones are 0, for unknown. */
function readDurationMs(): number {
  let [seconds, nanos] = [0, 0];
  const end = reader.length();
  while (reader.at < end) {
    const tag = reader.tag();
    if (tag === VARINT(1)) seconds = reader.uint64();
    else if (tag === VARINT(2)) nanos = reader.uint32();
    else reader.skip(tag);
  }
  reader.close(end);
  return seconds > MAX_ELAPSED_SECONDS ? 0 : seconds * 1_000 + Math.floor(nanos / 1_000_000);
}

/** The message RateLimitQuotaResponse. */
export function writeBucketActions(actions: readonly BucketAction[]): Buffer {
  writer.start(0);
  for (const action of actions) {
    const start = writer.begin(1);
    writePairs(action.pairs);
    if (action.kind === 'abandon') writer.end(writer.begin(3));
    else writeAssignment(action);
    writer.end(start);
  }
  return Buffer.from(writer.bytes.subarray(0, writer.length));
}

function writePairs(pairs: readonly Entry[]): void {
  const id = writer.begin(1);
  for (const { key, value } of pairs) {
    const entry = writer.begin(1);
    writer.textField(1, key);
    writer.textField(2, value);
    writer.end(entry);
  }
  writer.end(id);
}

function writeAssignment(action: Exclude<BucketAction, { kind: 'abandon' }>): void {
  const assignment = writer.begin(2);
  writeDuration(2, Math.ceil(action.ttlMs / 1_000), 0);
  const strategy = writer.begin(3);
  if (action.kind === 'token_bucket') {
    const bucket = writer.begin(3);
    writer.uint32Field(1, action.maxTokens);
    const perFill = writer.begin(2);
    writer.uintField(1, action.tokensPerFill);
    writer.end(perFill);
    const fillSeconds = action.fillMs / 1_000;
    writeDuration(3, fillSeconds, fillSeconds % MAX_ELAPSED_SECONDS);
    writer.end(bucket);
  } else writer.smallField(1, action.kind === 'allow' ? 0 : 1);
  writer.end(strategy);
  writer.end(assignment);
}

/**
 * @param nanos  number that differs with the seconds of a fill interval, about a billionth of it, since Envoy 1.40
 * detects a change only by the nanoseconds although it uses only the seconds
 */
function writeDuration(field: number, seconds: number, nanos: number): void {
  const start = writer.begin(field);
  writer.uintField(1, seconds);
  writer.uint32Field(2, nanos);
  writer.end(start);
}
