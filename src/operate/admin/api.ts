import type { IncomingMessage } from 'node:http';
import { fields, type JsonShape } from '../../base/shape.ts';
import { CallerDisconnected, type HttpRequest } from '../../edge/http/request.ts';
import { API, json, type Page, type Route } from '../../edge/http/server.ts';
import { StoreUnavailable } from '../../engine/backends/backend.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import type { Answers } from '../answers/all.ts';
import { type AccessOptions, admit, type Client, type Need } from './access.ts';
import { ApiProblem, problemPage } from './problem.ts';
import { closed, parseJson, valid } from './schema.ts';
import { Scope } from './scope.ts';

/** The input of an operation. */
interface Call<B = unknown, Q = unknown> {
  readonly client: Client;
  readonly scope: Scope;
  readonly body: B;
  readonly query: Q;
  readonly rawBody: Buffer;
  readonly request: HttpRequest;
  /** Further headers of the response. */
  readonly headers: Map<string, string>;
}

/** One method of one path. */
export interface ApiOperation {
  readonly path: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly summary: string;
  readonly need: Need;
  /**
   * What clients of some domains may do: `any`, as all clients; `named`, what their query or body names; `selected`,
   * what `answer` selects by their scope. Absent: nothing.
   */
  readonly domains?: 'any' | 'named' | 'selected';
  readonly query: JsonShape<object>;
  /** Absent: the operation takes no body. `any`: it parses the body itself. */
  readonly body?: JsonShape<object> | 'any';
  /** The type of a body that is not JSON. */
  readonly consumes?: 'application/yaml';
  /** Describes the 200 response. */
  readonly answers: string;
  /** Returns a JSON value; with `produces`, a `Page`. */
  answer(call: Call): object | Promise<object>;
  /** The content type of a `Page` that is not JSON. */
  readonly produces?: 'text/event-stream';
}

/** What an operation returns: JSON of its documented shape, else a page. */
type Answer<O extends string> = O extends keyof Answers ? Answers[O] : Page;

/**
 * An operation whose parameters, body and answer are typed by their shapes.
 *
 * @param name  `GET /api/v1/top`
 * @param declared.query  parameters of the query; none if absent
 */
export function operation<O extends `${ApiOperation['method']} ${string}`, Q extends object = object, B = undefined>(
  name: O,
  declared: Omit<ApiOperation, 'method' | 'path' | 'query' | 'body' | 'answer'> & {
    readonly query?: JsonShape<Q>;
    readonly body?: JsonShape<B> | 'any';
    answer(call: Call<B, Q>): Answer<O> | Promise<Answer<O>>;
  },
): ApiOperation {
  const { query, body } = declared;
  const [method, path] = name.split(' ');
  const shapes = {
    query: closed<object>(query ?? fields({})),
    ...(body && { body: body === 'any' ? body : closed(body) }),
  };
  return { ...declared, ...shapes, method, path } as unknown as ApiOperation; // `answer` below validates both first
}

/** The longest body: enough for a request to `/json` unless its texts are unusually long. */
const MAX_BODY_BYTES = 1024 * 1024;

export function operationsByPath(operations: readonly ApiOperation[]): ReadonlyMap<string, readonly ApiOperation[]> {
  const byPath = new Map<string, ApiOperation[]>();
  for (const one of operations) byPath.set(one.path, [...(byPath.get(one.path) ?? []), one]);
  return byPath;
}

interface RouteOptions {
  readonly access: AccessOptions;
  readonly rules: () => RuleTree | undefined;
  readonly onError: (error: unknown) => void;
}

/** The routes of operations: one for each path, with all its methods. */
export function operationRoutes(
  operations: readonly ApiOperation[],
  options: RouteOptions,
): ReadonlyMap<string, Route> {
  const byPath = operationsByPath(operations);
  const routes = new Map<string, Route>([[API, unknownOperation]]);
  for (const [path, own] of byPath)
    routes.set(path, {
      help: own.map(({ method, summary }) => `${method} ${summary}`).join('; '),
      answer: (request) => answer(request, own, options),
    });
  return routes;
}

const unknownOperation: Route = {
  help: 'the admin API, described by /api/v1/openapi.json',
  answer: () => problemPage(new ApiProblem(404, 'no operation has this path: /api/v1/openapi.json lists all')),
};

async function answer(
  request: HttpRequest,
  own: readonly ApiOperation[],
  { access, rules, onError }: RouteOptions,
): Promise<Page> {
  const body = request.readBody(MAX_BODY_BYTES);
  try {
    const chosen = chosenBy(request, own);
    const client = admit(request, chosen.need, access);
    const scope = new Scope(client, rules);
    const query = withinScope(chosen, scope, parseQuery(request, chosen));
    const rawBody = await body;
    await request.whenFirst();
    if (!rawBody) throw new ApiProblem(413, `the body must have at most ${MAX_BODY_BYTES} bytes`);
    const { body: schema } = chosen;
    const read = schema && schema !== 'any' ? valid(schema, parseJson(rawBody), 'the body') : undefined;
    if (read) scope.require(read);
    const headers = new Map([['cache-control', 'no-store']]);
    const found = await chosen.answer({ client, scope, query, body: read, rawBody, request, headers });
    if (chosen.produces) return found as Page; // as its declaration says
    return { ...json(200, found), headers: Object.fromEntries(headers) };
  } catch (error) {
    body.catch(() => {}); // the client has gone
    if (error instanceof ApiProblem) return problemPage(error);
    if (error instanceof StoreUnavailable) return problemPage(new ApiProblem(503, error.message));
    if (error instanceof CallerDisconnected) throw error;
    onError(error);
    return problemPage(new ApiProblem(500, 'internal error'));
  }
}

/**
 * The query of an operation, with the domain of a client that has only one.
 *
 * @throws ApiProblem  403: the client may not use the operation, or not for the domain or the rule
 */
function withinScope({ domains, query: shape }: ApiOperation, scope: Scope, query: object): object {
  if (domains === undefined) scope.requireAll();
  scope.require(query);
  if (domains !== 'named' || !shape.properties || !('domain' in shape.properties)) return query;
  const domain = scope.choose('domain' in query ? String(query.domain) : undefined);
  return domain === undefined ? query : { ...query, domain };
}

function chosenBy({ method = 'GET' }: IncomingMessage, own: readonly ApiOperation[]): ApiOperation {
  const chosen = own.find((one) => one.method === (method === 'HEAD' ? 'GET' : method));
  if (chosen) return chosen;
  const allow = own.map((one) => one.method).join(', ');
  throw new ApiProblem(405, `the method must be ${allow}, got ${method}`, { headers: { allow } });
}

/** The query parameters, with those of type integer as numbers. */
function parseQuery({ url = '' }: IncomingMessage, { query: shape, body }: ApiOperation): object {
  const ofBody = body === 'any' ? undefined : body?.properties;
  const properties = new Map(Object.entries(shape.properties ?? {}));
  const query = url.includes('?') ? url.slice(url.indexOf('?') + 1) : '';
  const values: [string, unknown][] = [];
  const seen = new Set<string>();
  for (const [name, text] of new URLSearchParams(query)) {
    if (seen.has(name)) throw new ApiProblem(400, `the parameter ${name.slice(0, 100)} appears twice`);
    seen.add(name);
    if (!properties.has(name) && ofBody && Object.hasOwn(ofBody, name))
      throw new ApiProblem(400, `the query is not valid: ${name} belongs in the body, which is JSON`);
    const isNumber = properties.get(name)?.type === 'integer';
    values.push([name, isNumber && /^-?\d{1,15}$/.test(text) ? Number(text) : text]);
  }
  return valid(shape, Object.fromEntries(values), 'the query');
}
