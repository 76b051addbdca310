import { Client, credentials, type ServiceError } from '@grpc/grpc-js';
import type { Clock } from './clock.ts';
import { responseToJson } from './rls/json.ts';
import { shouldRateLimit } from './rls/proto.ts';
import { codeNumbers, nameOf, unitNumbers, type WireRequest, type WireResponse, type WireStatus } from './rls/wire.ts';

/** One question for a running service. */
export interface Question {
  readonly domain: string;
  /** `key=value[,key=value…]`, one a descriptor. */
  readonly descriptors: readonly string[];
  readonly hits: number;
  /** `host:port` of its gRPC server. */
  readonly target: string;
  /** The answer as JSON instead of text. */
  readonly json: boolean;
}

/** The longest that an answer is waited for. */
const DEADLINE_MS = 5_000;

/** A descriptor on the command line is not `key=value[,key=value…]`. */
export class InvalidDescriptor extends Error {
  override readonly name = 'InvalidDescriptor';
}

/**
 * Sends one request to a running service.
 *
 * @param clock  for the deadline
 * @returns      the answer, as it is to be printed
 * @throws InvalidDescriptor, and the gRPC error where the service gives none
 */
export async function ask({ domain, descriptors, hits, target, json }: Question, clock: Clock): Promise<string> {
  const entries = descriptors.map(parseDescriptor);
  const request: WireRequest = {
    domain,
    descriptors: entries.map((found) => ({
      entries: found,
      limit: null,
      hits_addend: hits === 0 ? { value: 0 } : null, // 0 for the whole request would mean 1
      is_negative_hits: false,
    })),
    hits_addend: hits,
  };
  const client = new Client(target, credentials.createInsecure());
  try {
    const response = await call(client, request, clock() + DEADLINE_MS);
    return json ? JSON.stringify(responseToJson(response), undefined, 2) : describeResponse(response, descriptors);
  } finally {
    client.close();
  }
}

/** `user=alice,path=/login`: two entries. A value goes to the next comma and may hold further `=`. */
function parseDescriptor(written: string): { readonly key: string; readonly value: string }[] {
  return written.split(',').map((entry) => {
    const equals = entry.indexOf('=');
    if (equals < 1) throw new InvalidDescriptor(`a descriptor must be key=value[,key=value…], got '${written}'`);
    return { key: entry.slice(0, equals), value: entry.slice(equals + 1) };
  });
}

function call(client: Client, request: WireRequest, deadlineMs: number): Promise<WireResponse> {
  const { path, requestSerialize, responseDeserialize } = shouldRateLimit;
  return new Promise((resolve, reject) => {
    const answered = (error: ServiceError | null, response?: WireResponse) =>
      response ? resolve(response) : reject(error ?? new Error('the service gave no answer'));
    client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, { deadline: deadlineMs }, answered);
  });
}

function describeResponse(
  { overall_code, statuses, response_headers_to_add }: WireResponse,
  descriptors: readonly string[],
): string {
  const width = Math.max(...descriptors.map(({ length }) => length));
  return [
    codeName(overall_code),
    ...statuses.map(
      (status, at) =>
        `  ${(descriptors[at] ?? '').padEnd(width)}  ${codeName(status.code).padEnd(10)}  ${describeStatus(status)}`,
    ),
    ...response_headers_to_add.map(({ key, value }) => `  ${key}: ${value}`),
  ].join('\n');
}

function describeStatus({ current_limit, limit_remaining, duration_until_reset }: WireStatus): string {
  if (!current_limit) return limit_remaining === 0 ? 'no limit applies' : 'unlimited';
  const { name, requests_per_unit, unit, unit_multiplier } = current_limit;
  const unitName = nameOf(unitNumbers, unit) ?? String(unit);
  const window = unit_multiplier ? `${unit_multiplier.value} × ${unitName}` : unitName;
  const reset = duration_until_reset ? `, resets in ${duration_until_reset.seconds} s` : '';
  return `${name === '' ? '' : `${name}: `}${requests_per_unit} per ${window}, ${limit_remaining} remaining${reset}`;
}

const codeName = (code: number): string => nameOf(codeNumbers, code) ?? String(code);
