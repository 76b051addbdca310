import { readFileSync } from 'node:fs';
import {
  type ChannelCredentials,
  Client,
  credentials,
  Metadata,
  type MethodDefinition,
  type ServiceError,
} from '@grpc/grpc-js';
import type { Clock } from '../../base/clock.ts';
import { printable, printableJson } from '../../base/printable.ts';
import { InvalidDescriptor, parseDescriptor } from '../../edge/listing/descriptor-text.ts';
import { DETAIL_HEADER } from '../../edge/rls/detail.ts';
import { shouldRateLimit } from '../../edge/rls/proto.ts';
import { responseToJson } from '../../edge/wire/json.ts';
import {
  codeNumbers,
  findName,
  unitNumbers,
  type WireRequest,
  type WireResponse,
  type WireStatus,
} from '../../edge/wire/wire.ts';
import { MAX_WINDOW_MS } from '../../engine/algorithms/limit.ts';
import { type GrpcServerIdentity, serverIdentity } from '../../h2/identity/grpc-tls.ts';
import { systemCas } from '../../h2/identity/system-cas.ts';
import { fromStruct } from '../../protobuf/struct.ts';
import { CommandFailed } from '../lab/commands/client.ts';
import { duration } from '../lab/commands/paint.ts';
import { type FindResponse, findRules } from '../lab/rules-proto.ts';
import { renderSpared } from '../lab/texts.ts';

/** A request to a running service. */
interface Question {
  readonly domain: string;
  /** Descriptors, each as `key=value[,key=value…]`. */
  readonly descriptors: readonly string[];
  readonly hits: number;
  /** `host:port` of its gRPC server, or the path of its unix socket. */
  readonly target: string;
  /** Whether to print the answer as JSON. */
  readonly json: boolean;
  /** Undefined: plain text. */
  readonly tls: AskTls | undefined;
}

/** Certificate files; without `ca`, the system's certificates are used. */
export interface AskTls {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  /** Name that the server's certificate must have. Default: the target's host. */
  readonly serverName?: string;
}

/** Maximum wait for an answer. */
const DEADLINE_MS = 5_000;

/**
 * Sends one request to a running service, and queries the service for the rules behind the answer.
 *
 * @param clock  clock of the deadline
 * @returns      the answer as text
 * @throws CommandFailed, InvalidDescriptor
 */
export async function ask(question: Question, clock: Clock): Promise<string> {
  try {
    return await send(question, clock);
  } catch (error) {
    if (error instanceof CommandFailed || error instanceof InvalidDescriptor) throw error;
    throw new CommandFailed(`${question.target}: ${error instanceof Error ? error.message : error}`);
  }
}

async function send(question: Question, clock: Clock): Promise<string> {
  const { domain, descriptors, hits, target, json, tls } = question;
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
  const identity = serverIdentity(target, tls?.serverName);
  const address = target.startsWith('/') ? `unix:${target}` : target;
  const client = new Client(address, createCredentials(tls, identity), identity.channel);
  try {
    const deadlineMs = clock() + DEADLINE_MS;
    const headers = new Metadata();
    if (!json) headers.set(DETAIL_HEADER, '1');
    const ask = <R>(method: MethodDefinition<WireRequest, R>) => call(client, method, request, { deadlineMs, headers });
    const response = await ask(shouldRateLimit);
    if (json) return printableJson(responseToJson(response));
    const rules = await ask(findRules).catch(() => undefined); // services other than Weir do not have the method
    return describeResponse(response, descriptors, rules?.found ?? []);
  } finally {
    client.close();
  }
}

function createCredentials(tls: AskTls | undefined, { verify }: GrpcServerIdentity): ChannelCredentials {
  if (!tls) return credentials.createInsecure();
  if ((tls.cert === undefined) !== (tls.key === undefined))
    throw new CommandFailed('--cert and --key must be set together');
  const roots = read('--ca', tls.ca) ?? systemCas() ?? null;
  return credentials.createSsl(roots, read('--key', tls.key), read('--cert', tls.cert), verify);
}

function read(flag: string, file: string | undefined): Buffer | null {
  if (file === undefined) return null;
  try {
    return readFileSync(file);
  } catch (error) {
    throw new CommandFailed(`${flag} cannot be read: ${error instanceof Error ? error.message : error}`);
  }
}

function call<R>(
  client: Client,
  { path, requestSerialize, responseDeserialize }: MethodDefinition<WireRequest, R>,
  request: WireRequest,
  { deadlineMs, headers }: { readonly deadlineMs: number; readonly headers: Metadata },
): Promise<R> {
  return new Promise((resolve, reject) => {
    const answered = (error: ServiceError | null, response?: R) =>
      response ? resolve(response) : reject(error ?? new Error('the service gave no answer'));
    const options = { deadline: deadlineMs };
    client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, headers, options, answered);
  });
}

function describeResponse(
  response: WireResponse,
  descriptors: readonly string[],
  rules: FindResponse['found'],
): string {
  const { overall_code, statuses, response_headers_to_add } = response;
  const width = Math.max(...descriptors.map(({ length }) => length));
  const { would_refuse, exempt, descriptors: details = [] } = readDetail(response);
  return [
    codeName(overall_code),
    ...statuses.map((status, at) => {
      const descriptor = (descriptors[at] ?? '').padEnd(width);
      const described = describeStatus(status, { ...details[at], isExempt: exempt?.includes(at) }, rules[at]);
      return `  ${descriptor}  ${codeName(status.code).padEnd(10)}  ${described}`;
    }),
    ...renderSpared(would_refuse).map((line) => `  ${line}`),
    ...response_headers_to_add.map(({ key, value }) => `  ${key}: ${value}`),
  ]
    .map(printable)
    .join('\n');
}

/** What Weir adds to its answers; the amounts of a budget are texts. */
interface Detail {
  readonly would_refuse?: Parameters<typeof renderSpared>[0];
  readonly exempt?: readonly number[];
  readonly descriptors?: readonly { readonly limit?: number | string; readonly remaining?: number | string }[];
}

function readDetail({ dynamic_metadata }: WireResponse): Detail {
  if (!dynamic_metadata) return {};
  const { weir } = fromStruct(dynamic_metadata) as { readonly weir?: Detail }; // only Weir sends it
  return weir ?? {};
}

function describeStatus(
  { current_limit, limit_remaining, duration_until_reset }: WireStatus,
  detail: NonNullable<Detail['descriptors']>[number] & { readonly isExempt: boolean | undefined },
  found?: FindResponse['found'][number],
): string {
  const why = found ? `; ${found.explanation}` : '';
  if (!current_limit)
    return `${limit_remaining === 0 ? 'no limit applies' : detail.isExempt ? 'exempt by an override' : 'unlimited'}${why}`;
  const { name, requests_per_unit, unit, unit_multiplier } = current_limit;
  const unitName = findName(unitNumbers, unit) ?? String(unit);
  const window = unit_multiplier ? `${unit_multiplier.value} × ${unitName}` : unitName;
  const { limit = requests_per_unit, remaining = limit_remaining } = detail;
  const rate = unit === unitNumbers.UNKNOWN ? `limit of ${limit}` : `${limit} per ${window}`; // slots have no window
  const resetsInMs = (duration_until_reset?.seconds ?? Number.POSITIVE_INFINITY) * 1_000;
  const reset = resetsInMs < MAX_WINDOW_MS ? `, resets in ${duration(resetsInMs)}` : ''; // an allocation stays
  return `${name === '' ? '' : `${name}: `}${rate}, ${remaining} remaining${reset}${why}`;
}

const codeName = (code: number): string => findName(codeNumbers, code) ?? String(code);
