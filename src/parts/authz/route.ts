import { decideWire, type JsonOverload, outcomeInTurn, refused } from '../../edge/http/api.ts';
import { type Page, plain, type Route } from '../../edge/http/server.ts';
import type { CallOutcome, RlsService } from '../../edge/rls/service.ts';
import { codeNumbers, maximumRequest, type WireRequest, type WireResponse } from '../../edge/wire/wire.ts';
import type { RequestDescriptor } from '../../engine/decide/decide.ts';
import { type Problem, Problems } from '../../engine/rules/read/problem.ts';
import { status } from '../../h2/grpc/grpc-status.ts';
import {
  everyRequest,
  type FieldReaders,
  type LimitItem,
  type RequestFields,
  readDescriptors,
  readLimitItems,
} from '../lab/mapping/actions.ts';
import { type Compile, type MappingBlock, parseBlock } from '../lab/mapping/mapping-block.ts';

/** Creates the request that a proxy would send for a client's request. */
export type AuthzMapping = (headers: ReceivedHeaders) => WireRequest;

/** Headers with all of their values, such as `headersDistinct` of Node, by lower-case name. */
type ReceivedHeaders = Readonly<Record<string, readonly string[] | undefined>>;

/**
 * Reads a mapping file, whose `rate_limits` are those of a route of Envoy.
 *
 * @see https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/route/v3/route_components.proto
 */
export function parseAuthzMapping(
  file: string,
  text: string,
  compile: Compile,
): { readonly mapping: AuthzMapping } | { readonly problems: readonly Problem[] } {
  const problems = new Problems();
  const block = parseBlock(file, text, { problems, compile });
  const mapping = block && readMapping(block);
  return mapping && !problems.hasErrors ? { mapping } : { problems: problems.all };
}

function readMapping(block: MappingBlock): AuthzMapping | undefined {
  const domain = block.required('domain');
  const readers = readFields(block.block('fields'));
  const { items } = readLimitItems(block, readers);
  if (items.length > maximumRequest.descriptors)
    block.error(`expected at most ${maximumRequest.descriptors} rate_limits, got ${items.length}`, 'rate_limits');
  block.done();
  return domain === undefined ? undefined : (headers) => createRequest(domain, items, headers);
}

/** The headers in which proxies pass on what a client requested. Others of a client could be mistaken for these. */
const passedOn: Readonly<Record<string, string>> = {
  ':path': 'x-forwarded-uri',
  ':method': 'x-forwarded-method',
  ':authority': 'x-forwarded-host',
};

/** The network of a client with IPv6, which can use all of its addresses. */
const IPV6_PREFIX = 64;

/** @param block  the headers of a proxy that uses others */
function readFields(block: MappingBlock | undefined): FieldReaders {
  const address = block?.text('remote_address')?.toLowerCase() ?? 'x-forwarded-for';
  const own = block?.block('headers');
  const named = new Map(own?.keys.map((name) => [name.toLowerCase(), own.text(name)?.toLowerCase() ?? name]));
  block?.done();
  const received = (name: string): string => {
    const lower = name.toLowerCase();
    return named.get(lower) ?? (Object.hasOwn(passedOn, lower) ? (passedOn[lower] ?? lower) : lower);
  };
  return {
    header: (name) => (headers) => readValues(received(name), headers)[0],
    headers: (name) => (headers) => readValues(received(name), headers),
    metadata: () => () => undefined,
    address: (headers) => lastOf(readValues(address, headers).join(',')),
    ipv6Prefix: IPV6_PREFIX,
    cluster: () => undefined,
    sourceCluster: () => '',
  };
}

/** The values of a header, whose octets Node decodes as Latin-1. */
const readValues = (name: string, headers: RequestFields): readonly string[] => {
  const values = Object.hasOwn(headers, name) ? headers[name] : undefined;
  return Array.isArray(values) ? values.map((value) => Buffer.from(value, 'latin1').toString()) : [];
};

/** The last item of a list, which the proxy itself has added. */
const lastOf = (list: string | undefined): string | undefined => list?.slice(list.lastIndexOf(',') + 1);

function createRequest(domain: string, items: readonly LimitItem[], headers: ReceivedHeaders): WireRequest {
  const found = readDescriptors(items, headers);
  return { domain, descriptors: (found.length > 0 ? found : [EVERY_REQUEST]).map(toWire), hits_addend: 0 };
}

/** Stands for a request without descriptors, so that `require` applies to it. */
const EVERY_REQUEST: RequestDescriptor = {
  entries: [everyRequest],
  requestLimit: undefined,
  hits: 1,
};

const toWire = ({ entries, hits }: RequestDescriptor): WireRequest['descriptors'][number] => ({
  entries,
  limit: null,
  hits_addend: { value: Math.abs(hits) },
  is_negative_hits: hits < 0,
});

/**
 * Answers proxies that ask an authentication server about each request, such as Traefik's forwardAuth and NGINX's
 * auth_request: 200 if the request may pass, 429 if it is over a limit, 503 without a decision. With `?refused=403` a
 * refusal is 403 instead, since NGINX takes 429 for an error.
 */
export function authzRoute(mapping: AuthzMapping, service: RlsService, overload: JsonOverload): Route {
  return {
    help: 'a decision by the headers of a request, for forwardAuth and auth_request; 200 within, 429 over the limit',
    answer(request) {
      const error = overload.refusal();
      if (error) return undecided({ error });
      const { url = '' } = request;
      const refusal = new URL(url, 'http://weir').searchParams.get('refused') === '403' ? 403 : 429;
      const octets = request.rawHeaders.reduce((sum, text) => sum + text.length, url.length);
      const run = (reply: (outcome: CallOutcome) => void): number =>
        decideWire(mapping(request.headersDistinct), { octets, request, service, reply });
      return outcomeInTurn(octets, overload, run).then((outcome) =>
        'error' in outcome ? undecided(outcome) : decisionPage(outcome.response, refusal),
      );
    },
  };
}

function undecided({ error }: Extract<CallOutcome, { error: unknown }>): Page {
  const isInvalid = error.code === status.INVALID_ARGUMENT;
  return isInvalid
    ? refused(400, 'Bad Request\n', error.details, error.code)
    : refused(503, 'Service Unavailable\n', error.details, error.code);
}

function decisionPage(response: WireResponse, refusal: number): Page {
  const isOver = response.overall_code === codeNumbers.OVER_LIMIT;
  const page = isOver ? plain(refusal, response.raw_body ?? 'Too Many Requests\n') : plain(200, '');
  const sent = response.response_headers_to_add.map(({ key, value }) => [key.toLowerCase(), value] as const);
  const { 'content-type': contentType = page.contentType, ...headers } = Object.fromEntries([
    ...limitHeaders(response),
    ...sent,
  ]);
  return { ...page, contentType, headers };
}

/** The default of LIMIT_MAX_WAIT, 24 days. */
const MAX_WAIT_S = 24 * 86_400;

/** The headers that Envoy adds by itself: those of the limit with the fewest hits left, and seconds until its reset. */
function limitHeaders({ statuses }: WireResponse): readonly (readonly [name: string, value: string])[] {
  const limited = statuses.filter(({ current_limit: limit }) => limit !== undefined);
  const [first] = limited.toSorted((one, other) => one.limit_remaining - other.limit_remaining);
  if (!first) return [];
  return [
    ['x-ratelimit-limit', String(first.current_limit?.requests_per_unit)],
    ['x-ratelimit-remaining', String(first.limit_remaining)],
    ['x-ratelimit-reset', String(Math.min(first.duration_until_reset?.seconds ?? 0, MAX_WAIT_S))],
  ];
}
