import type { IncomingMessage } from 'node:http';
import { crossSiteReason } from '../../edge/http/cross-site.ts';
import { ApiProblem } from './problem.ts';
import { hasCsrf, type Sessions } from './sessions.ts';
import { type AdminToken, type Role, tokenOf } from './tokens.ts';

/** The access that an operation requires: `open` shows no values that callers sent. */
export type Need = 'open' | Role;

export interface AccessOptions {
  readonly tokens: readonly AdminToken[];
  /** Hosts, besides loopback, under which clients without a token may reach the API. */
  readonly hosts: readonly string[];
  /** The sessions of browsers that signed in with a token. */
  readonly sessions: Pick<Sessions, 'of' | 'open' | 'close'>;
}

/** The sender of a request. */
export interface Client {
  /** The name of the client's token; `loopback` or `anonymous` without one. */
  readonly name: string;
  /** Whether it may see values that callers sent. */
  readonly seesValues: boolean;
  /** Counts only if `seesValues`. */
  readonly role: Role;
}

/**
 * Checks that the client may do what it requests: with a token, by the token's role. If no token is set, clients on
 * this machine may read everything, unless a proxy or a web page sent the request; changes are off.
 *
 * @throws ApiProblem  401 or 403
 */
export function admit(request: IncomingMessage, need: Need, { tokens, hosts, sessions }: AccessOptions): Client {
  const crossSite = crossSiteReason(request);
  if (crossSite !== undefined && need !== 'open') throw new ApiProblem(403, crossSite);
  const { authorization } = request.headers;
  if (authorization !== undefined && tokens.length > 0) {
    const token = tokenOf(authorization, tokens);
    if (!token) throw unauthorized('the token is not one of ADMIN_TOKEN');
    return clientOf(token, need);
  }
  const session = tokens.length > 0 && crossSite === undefined ? sessions.of(request) : undefined;
  if (session) {
    if (need !== 'open' && isChange(request) && !hasCsrf(request, session))
      throw new ApiProblem(403, 'a change in a session requires its csrf in the header x-weir-csrf');
    return clientOf(session.token, need);
  }
  if (tokens.length > 0) {
    if (need === 'open') return { name: 'anonymous', seesValues: false, role: 'read' };
    throw unauthorized('send Authorization: Bearer with a token of ADMIN_TOKEN');
  }
  const reason = crossSite ?? notLocalReason(request, hosts);
  if (need === 'open')
    return { name: reason === undefined ? 'loopback' : 'anonymous', seesValues: reason === undefined, role: 'read' };
  if (need === 'operate') throw new ApiProblem(403, 'changes are off: set ADMIN_TOKEN');
  if (reason !== undefined)
    throw new ApiProblem(
      403,
      `without ADMIN_TOKEN only clients on this machine may read values from callers: ${reason}`,
    );
  return { name: 'loopback', seesValues: true, role: 'read' };
}

/** Whether a request has a valid token, or a session that was opened with one. */
export const isChecked = (request: IncomingMessage, { tokens, sessions }: AccessOptions): boolean =>
  tokens.length > 0 &&
  (tokenOf(request.headers.authorization, tokens) !== undefined || sessions.of(request) !== undefined);

/** Whether the sender of a request may see values that callers sent. */
export function seesValues(request: IncomingMessage, access: AccessOptions): boolean {
  try {
    return admit(request, 'open', access).seesValues;
  } catch (error) {
    if (error instanceof ApiProblem) return false;
    throw error;
  }
}

/** @throws ApiProblem  403 */
function clientOf({ name, role }: AdminToken, need: Need): Client {
  if (need === 'operate' && role !== 'operate')
    throw new ApiProblem(403, `the token of '${name}' may only read; changes require the role operate`);
  return { name, seesValues: true, role };
}

const isChange = ({ method = 'GET' }: IncomingMessage): boolean => method !== 'GET' && method !== 'HEAD';

const unauthorized = (detail: string): ApiProblem =>
  new ApiProblem(401, detail, { headers: { 'www-authenticate': 'Bearer realm="weir"' } });

const LOOPBACK_ADDRESS = /^(::ffff:)?127\.\d+\.\d+\.\d+$|^::1$/;
const LOOPBACK_HOST = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/**
 * Why a request does not count as one from a client on this machine. The Host is checked since a web page can reach
 * loopback by rebinding its own name.
 */
function notLocalReason({ headers, socket }: IncomingMessage, hosts: readonly string[]): string | undefined {
  if (!LOOPBACK_ADDRESS.test(socket.remoteAddress ?? '')) return 'the client is on another machine';
  if (headers.forwarded !== undefined || headers['x-forwarded-for'] !== undefined) return 'a proxy sent the request';
  const host = (headers.host ?? '').toLowerCase();
  const name = host.replace(/:\d+$/, '');
  if (LOOPBACK_HOST.test(name) || hosts.includes(name) || hosts.includes(host)) return undefined;
  return `the Host must be loopback or one of ADMIN_HOSTS, got '${host}'`;
}
