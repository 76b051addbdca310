import { fileURLToPath } from 'node:url';
import type { Redis } from 'ioredis';
import type { Decision } from '../../client/src/index.ts';
import { codeNumbers, MAX_UINT32, unitNumbers, type WireRequest, type WireResponse } from '../../src/edge/wire/wire.ts';
import type { Unit } from '../../src/engine/algorithms/limit.ts';
import { unitMs } from '../../src/engine/algorithms/limit.ts';
import { fromStruct } from '../../src/protobuf/struct.ts';

/** The recorded cases, which `rls-conformance` publishes. */
export const CORPUS = fileURLToPath(new URL('../../conformance/corpus', import.meta.url));

export interface RecordedCase {
  readonly name: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly files?: Readonly<Record<string, string>>;
  /** The smallest unit of time in the case. */
  readonly unit?: Unit;
  /** The ports need not become ready. */
  readonly no_wait?: boolean;
  readonly memcached?: boolean;
  readonly fake_memcached?: boolean;
  readonly xds?: boolean;
  readonly steps: readonly Step[];
}

/** One action of a case; its fields depend on `do`. */
export interface Step {
  readonly do: string;
  readonly request?: RecordedRequest;
  readonly repeat?: number;
  readonly body?: unknown;
  readonly method?: string;
  readonly write?: Readonly<Record<string, string>>;
  readonly delete?: readonly string[];
  readonly args?: readonly string[];
  readonly ms?: number;
  readonly prefix?: string;
  readonly gauges?: unknown;
  readonly timers?: unknown;
  readonly port?: string;
  readonly path?: string;
  readonly lines?: boolean | string;
  readonly status_only?: boolean;
  readonly service?: string;
  readonly db?: number;
  readonly keys?: readonly string[];
  readonly contains?: string;
  readonly signal?: NodeJS.Signals;
  readonly within_ms?: number;
  readonly version?: string;
  readonly resources?: readonly unknown[];
  readonly expect?: Readonly<Record<string, unknown>>;
}

export interface RecordedRequest {
  readonly domain?: string;
  readonly hits_addend?: number;
  readonly descriptors?: readonly {
    readonly entries?: readonly (readonly [string, string?])[];
    readonly limit?: { readonly requests_per_unit?: number; readonly unit?: keyof typeof unitNumbers | number };
    readonly hits_addend?: number | string;
    readonly is_negative_hits?: boolean;
  }[];
}

/** Whether the answer equals the expected one, whose tokens match various values. */
export function matches(wanted: unknown, came: unknown, nowMs: number): boolean {
  if (typeof wanted === 'string') {
    if (wanted === '{any}') return came !== undefined;
    const contained = /^\{contains:(.*)\}$/s.exec(wanted)?.[1];
    if (contained !== undefined) return String(came).includes(contained);
    const unit = /^\{reset:(\w+)\}$/.exec(wanted)?.[1] as Unit | undefined;
    if (unit === undefined) return wanted === came;
    const seconds = Math.ceil((unitMs[unit] - (nowMs % unitMs[unit])) / 1000);
    return came === seconds || came === String(seconds) || came === `${seconds}s`;
  }
  if (typeof wanted !== 'object' || wanted === null || typeof came !== 'object' || came === null)
    return wanted === came;
  const keys = new Set([...Object.keys(wanted), ...Object.keys(came)]);
  const [left, right] = [wanted, came] as Record<string, unknown>[];
  return [...keys].every((key) => matches(left?.[key], right?.[key], nowMs));
}

/**
 * Compares all counters in Redis with the recorded ones.
 *
 * @param wanted   the count and the bounds of the time to live in seconds, by key
 * @param sinceMs  when they may have been written first: the recording is of an idle machine
 * @returns the differences, a text for each
 */
export async function compareKeys(client: Redis, wanted: unknown, sinceMs: number): Promise<readonly string[]> {
  const found: Record<string, { readonly value: string | null; readonly ttl: number }> = {};
  for (const key of await client.keys('*')) {
    if (key.startsWith('weir_instances|')) continue; // counts the processes that share the store
    if (key.startsWith('weir warm-up_')) continue; // scratch counters of a start, which end within seconds
    if ((await client.type(key)) === 'string')
      found[key] = { value: await client.get(key), ttl: await client.ttl(key) };
  }
  const pastS = Math.floor((Date.now() - sinceMs) / 1_000);
  const keys = wanted as Readonly<Record<string, { readonly value: string; readonly ttl: readonly number[] }>>; // from the corpus
  const isSame =
    Object.keys(keys).sort().join('\n') === Object.keys(found).sort().join('\n') &&
    Object.entries(keys).every(
      ([
        key,
        {
          value,
          ttl: [from = 0, to = 0],
        },
      ]) => {
        const { value: held, ttl = 0 } = found[key] ?? {};
        return held === value && ttl >= from - pastS && ttl <= to;
      },
    );
  return isSame ? [] : [differ(wanted, found)];
}

export const differ = (wanted: unknown, came: unknown): string =>
  `wanted ${JSON.stringify(wanted)}\n    came   ${JSON.stringify(came)}`;

/** The text with `{start:UNIT}` replaced by the beginning of the window, in seconds. */
export const withStarts = (text: string, nowMs: number): string =>
  text.replaceAll(/\{start:(\w+)\}/g, (_, unit: Unit) => String((nowMs - (nowMs % unitMs[unit])) / 1_000));

export function toWire({ domain = '', descriptors = [], hits_addend = 0 }: RecordedRequest): WireRequest {
  return {
    domain,
    hits_addend,
    descriptors: descriptors.map(({ entries = [], limit, hits_addend: hits, is_negative_hits = false }) => ({
      entries: entries.map(([key, value = '']) => ({ key, value })),
      limit: limit
        ? { requests_per_unit: limit.requests_per_unit ?? 0, unit: unitNumber(limit.unit), unit_multiplier: null }
        : null,
      hits_addend: hits === undefined ? null : { value: Number(hits) },
      is_negative_hits,
    })),
  };
}

const unitNumber = (unit: keyof typeof unitNumbers | number = 0): number =>
  typeof unit === 'number' ? unit : unitNumbers[unit];

/** The answer in the form of the recording: without unset fields, and with names for numbers. */
export function fromWire({ overall_code, statuses, response_headers_to_add, dynamic_metadata }: WireResponse): unknown {
  return {
    overall_code: nameOf(codeNumbers, overall_code),
    statuses: statuses.map(({ code, current_limit, limit_remaining, duration_until_reset }) => ({
      code: nameOf(codeNumbers, code),
      ...(current_limit && {
        current_limit: {
          requests_per_unit: current_limit.requests_per_unit,
          unit: nameOf(unitNumbers, current_limit.unit),
          ...(current_limit.name !== '' && { name: current_limit.name }),
        },
      }),
      limit_remaining,
      ...(duration_until_reset && { duration_until_reset: duration_until_reset.seconds }),
    })),
    ...(response_headers_to_add.length > 0 && {
      response_headers_to_add: response_headers_to_add.map(({ key, value }) => ({ key, value })),
    }),
    ...(dynamic_metadata && { dynamic_metadata: fromStruct(dynamic_metadata) }),
  };
}

/** A request as arguments of the client. */
export interface ClientCall {
  readonly domain: string;
  readonly descriptors: readonly Readonly<Record<string, string>>[];
  readonly hits: number;
}

/** Undefined: the client has no such requests: with limits, repeated keys, or different hits for each descriptor. */
export function clientCallOf(request: RecordedRequest): ClientCall | undefined {
  const { domain, descriptors, hits_addend } = toWire(request);
  if (domain === '' || descriptors.length === 0) return undefined;
  const hitsOf = descriptors.map(({ hits_addend: own, is_negative_hits }) => {
    const hits = own?.value ?? (hits_addend || 1);
    return is_negative_hits ? -hits : hits;
  });
  const [hits = 1] = hitsOf;
  const isExpressible =
    hitsOf.every((own) => own === hits) &&
    Math.abs(hits) <= MAX_UINT32 &&
    descriptors.every(({ entries, limit }) => entries.length > 0 && !limit && isRecord(entries.map(({ key }) => key)));
  if (!isExpressible) return undefined;
  const records = descriptors.map(({ entries }) => Object.fromEntries(entries.map(({ key, value }) => [key, value])));
  return { domain, descriptors: records, hits };
}

/** Whether the keys stay in this order as properties of an object. */
const isRecord = (keys: readonly string[]): boolean =>
  Object.keys(Object.fromEntries(keys.map((key) => [key, '']))).join('\0') === keys.join('\0');

/** The decision of a client in the form of the recording. */
export function fromDecision({ ok, descriptors }: Decision): unknown {
  return {
    overall_code: ok ? 'OK' : 'OVER_LIMIT',
    statuses: descriptors.map(({ ok: passes, rule, name, limit, windowMs, remaining, resetMs }) => ({
      code: passes ? 'OK' : 'OVER_LIMIT',
      ...(limit !== undefined && {
        current_limit: {
          requests_per_unit: limit,
          unit: Object.entries(unitMs).find(([, ms]) => ms === windowMs)?.[0],
          ...(name !== undefined && { name }),
        },
      }),
      limit_remaining: remaining ?? (rule === undefined ? 0 : MAX_UINT32),
      ...(resetMs !== undefined && { duration_until_reset: Math.ceil(resetMs / 1_000) }),
    })),
  };
}

const nameOf = (names: Readonly<Record<string, number>>, number: number) =>
  Object.keys(names).find((name) => names[name] === number);
