import { shouldRateLimit } from '../../../src/edge/rls/proto.ts';

/** The content of a call: one hit on each descriptor. */
export interface Question {
  readonly domain: string;
  readonly descriptors: readonly Descriptor[];
}

interface Descriptor {
  /** The entry before it. Default: none. */
  readonly above?: { readonly key: string; readonly value: string };
  readonly key: string;
  readonly value: string;
  /**
   * The number of values, equally frequent, from `<value>-000000`: at most a million, without a factor of `STRIDE`.
   * Default: one value.
   */
  readonly values?: number;
}

const DIGITS = 6;
/** Stride without the factors 2 and 5, so that all values are visited before the first one repeats. */
const STRIDE = 61_803;
const GRPC_PREFIX_BYTES = 5;
const ZERO = 48;

/** Writes the messages of calls, framed for gRPC; all have the same length. */
export interface Requests {
  readonly bytes: number;
  /** Writes the next message. The order of values is always the same. */
  writeNext(target: Buffer, at: number): void;
}

export function createRequests({ domain, descriptors }: Question): Requests {
  const message = shouldRateLimit.requestSerialize({
    domain,
    hits_addend: 0,
    descriptors: descriptors.map(({ above, key, value, values }) => ({
      entries: [...(above ? [above] : []), { key, value: values === undefined ? value : firstValue(value) }],
      limit: null,
      hits_addend: null,
      is_negative_hits: false,
    })),
  });
  const prefix = Buffer.alloc(GRPC_PREFIX_BYTES); // not compressed
  prefix.writeUInt32BE(message.length, 1);
  const template = Buffer.concat([prefix, message]);
  let end = 0;
  const varied = descriptors.flatMap(({ value, values }) => {
    if (values === undefined) return [];
    const first = firstValue(value);
    end = template.indexOf(first, end) + first.length;
    return [{ values, end }];
  });
  let written = 0;
  return {
    bytes: template.length,
    writeNext(target, at) {
      template.copy(target, at);
      for (const { values, end } of varied) writeDigits(target, at + end, (written * STRIDE) % values);
      written++;
    },
  };
}

const firstValue = (value: string) => `${value}-${'0'.repeat(DIGITS)}`;

function writeDigits(target: Buffer, end: number, number: number): void {
  let rest = number;
  for (let at = end - 1; at >= end - DIGITS; at--) {
    target[at] = ZERO + (rest % 10);
    rest = Math.floor(rest / 10);
  }
}
