import { anyObject, anyOf, fields, flag, listOf, oneOf, orNull, text, type ValueOf, whole } from '../../base/shape.ts';
import { codeNumbers, requestUnitNumbers, unitNumbers } from './wire.ts';

const oneOfNames = <N extends Readonly<Record<string, number>>>(numbers: N) =>
  oneOf(...(Object.keys(numbers) as (keyof N & string)[])); // it has no other keys

const entry = fields({ key: text, value: text });

const requestLimit = fields(
  {},
  { requestsPerUnit: whole, unit: anyOf(oneOfNames(requestUnitNumbers), whole), unitMultiplier: whole },
);

const descriptor = fields(
  { entries: listOf(entry) },
  {
    limit: orNull(requestLimit),
    hitsAddend: orNull(anyOf(text, whole)),
    isNegativeHits: flag,
  },
);

/** The body of `/json`. */
export const rateLimitRequest = {
  ...fields({ domain: text, descriptors: listOf(descriptor) }, { hitsAddend: whole }),
  description: 'The JSON of a RateLimitRequest; names may be in snake_case, as in the .proto file.',
};

const header = fields({ key: text, value: text });
const code = oneOfNames(codeNumbers);

const currentLimit = fields(
  {},
  { name: text, requestsPerUnit: whole, unit: oneOfNames(unitNumbers), unitMultiplier: whole },
);

const descriptorStatus = fields(
  { code },
  {
    currentLimit,
    limitRemaining: whole,
    /** `59s`. */
    durationUntilReset: text,
  },
);

/** The answer of `/json`: defaults are left out. */
export const rateLimitResponse = fields(
  { overallCode: code, statuses: listOf(descriptorStatus) },
  { responseHeadersToAdd: listOf(header), rawBody: { ...text, description: 'In base64.' }, dynamicMetadata: anyObject },
);
export type RateLimitResponseJson = ValueOf<typeof rateLimitResponse>;

/** The shapes by the names of their types in generated clients. */
export const namedShapes = {
  DescriptorEntry: entry,
  RequestLimit: requestLimit,
  RateLimitDescriptor: descriptor,
  RateLimitRequest: rateLimitRequest,
  CurrentLimit: currentLimit,
  DescriptorStatus: descriptorStatus,
  ResponseHeader: header,
  RateLimitResponse: rateLimitResponse,
} as const;
