import { isUtf8 } from 'node:buffer';
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Clock } from '../../base/clock.ts';
import { crossSiteReason } from '../../edge/http/cross-site.ts';
import { ApiProblem } from './problem.ts';

/** The access that an operation requires: `open` shows no values that callers sent. */
export type Need = 'open' | Role;

export interface AccessOptions {
  /** At least one. */
  readonly tokens: readonly AdminToken[];
  /** The sessions of browsers that signed in with a token. */
  readonly sessions: Pick<Sessions, 'of' | 'open' | 'close'>;
  /** Names the people behind an authenticating proxy; undefined: each client has the name of its token. */
  readonly identity?: IdentityHeader | undefined;
}

/** The header in which an authenticating proxy names the person behind a request. */
interface IdentityHeader {
  /** In lower case. */
  readonly header: string;
  /** Whether an address is that of the proxy: others could name whom they like. */
  readonly isTrusted: (address: string) => boolean;
}

/** The sender of a request. */
export interface Client {
  /** The name of its token, or of the person whom a proxy names; `anonymous` without a token. */
  readonly name: string;
  /** The domains that it may see and change; undefined: all. */
  readonly domains?: readonly string[] | undefined;
  /** Whether it may see values that callers sent. */
  readonly seesValues: boolean;
  /** Counts only if `seesValues`. */
  readonly role: Role;
}

/**
 * Checks that the client may do what it requests, by the role of its token.
 *
 * @throws ApiProblem  401 or 403
 */
export function admit(request: IncomingMessage, need: Need, options: AccessOptions): Client {
  const client = admitToken(request, need, options);
  const person = client.seesValues ? namedPerson(request, options.identity) : undefined;
  return person === undefined ? client : { ...client, name: person };
}

const MAX_NAME_LENGTH = 200;

/** @throws ApiProblem  403: the header is not one name, for example since the client has sent one, too */
function namedPerson(
  { headersDistinct, socket }: IncomingMessage,
  identity: AccessOptions['identity'],
): string | undefined {
  if (!identity?.isTrusted(socket.remoteAddress ?? '')) return undefined;
  const bytes = Buffer.from((headersDistinct[identity.header] ?? []).join(), 'latin1'); // as Node reads headers
  const written = bytes.toString(isUtf8(bytes) ? 'utf8' : 'latin1').trim();
  if (written === '') return undefined;
  if (written.length > MAX_NAME_LENGTH || /[,\p{C}\p{Zl}\p{Zp}]/u.test(written))
    throw new ApiProblem(
      403,
      `${identity.header} must be one name, of at most ${MAX_NAME_LENGTH} characters: the proxy must replace what clients send in this header`,
    );
  return written;
}

function admitToken(request: IncomingMessage, need: Need, { tokens, sessions }: AccessOptions): Client {
  const crossSite = crossSiteReason(request);
  if (crossSite !== undefined && need !== 'open') throw new ApiProblem(403, crossSite);
  const { authorization } = request.headers;
  const isLocalOnly = tokens.every(({ isLocal }) => isLocal);
  if (authorization !== undefined) {
    const token = findToken(authorization, tokens);
    if (!token) throw unauthorized(`the token is not ${isLocalOnly ? 'that of this start' : 'one of ADMIN_TOKEN'}`);
    return toClient(token, need, request);
  }
  const session = crossSite === undefined ? sessions.of(request) : undefined;
  if (session) {
    if (need !== 'open' && isChange(request) && !hasCsrf(request, session))
      throw new ApiProblem(403, 'a change in a session requires its csrf in the header x-weir-csrf');
    return toClient(session.token, need, request);
  }
  if (need === 'open') return ANONYMOUS;
  throw unauthorized(
    isLocalOnly
      ? 'set ADMIN_TOKEN; or on the machine of the service open the address of the console that it printed at its start, or send the token in it as Authorization: Bearer'
      : 'send Authorization: Bearer with a token of ADMIN_TOKEN',
  );
}

const ANONYMOUS: Client = { name: 'anonymous', seesValues: false, role: 'read' };

/** Whether a request has a valid token, or a session that was opened with one. */
export const isChecked = (request: IncomingMessage, { tokens, sessions }: AccessOptions): boolean =>
  findToken(request.headers.authorization, tokens) !== undefined || sessions.of(request) !== undefined;

/** Whether the sender of a request may see values that callers sent in every domain. */
export function seesValues(request: IncomingMessage, access: AccessOptions): boolean {
  try {
    const { seesValues, domains } = admit(request, 'open', access);
    return seesValues && !domains;
  } catch (error) {
    if (error instanceof ApiProblem) return false;
    throw error;
  }
}

/** @throws ApiProblem  403 */
function toClient(
  { name, role, domains, isLocal = false }: AdminToken,
  need: Need,
  { socket }: IncomingMessage,
): Client {
  if (isLocal && !LOOPBACK_ADDRESS.test(socket.remoteAddress ?? '')) {
    if (need === 'open') return ANONYMOUS;
    throw new ApiProblem(403, 'the token of this start is for clients on this machine: set ADMIN_TOKEN');
  }
  if (need === 'operate' && isLocal) throw new ApiProblem(403, 'read-only: set ADMIN_TOKEN to allow changes');
  if (need === 'operate' && role !== 'operate')
    throw new ApiProblem(403, `the token of '${name}' may only read; changes require the role operate`);
  return { name, seesValues: true, role, domains };
}

const isChange = ({ method = 'GET' }: IncomingMessage): boolean => method !== 'GET' && method !== 'HEAD';

const unauthorized = (detail: string): ApiProblem =>
  new ApiProblem(401, detail, { headers: { 'www-authenticate': 'Bearer realm="weir"' } });

const LOOPBACK_ADDRESS = /^(::ffff:)?127\.\d+\.\d+\.\d+$|^::1$/;

/** A signed-in browser. */
interface Session {
  readonly token: AdminToken;
  /** Sent back in `x-weir-csrf` with every change: a page of another site cannot read it. */
  readonly csrf: string;
  readonly untilMs: number;
}

const LIFETIME_MS = 12 * 60 * 60 * 1_000;

/** Of each token; if there are more, its oldest session ends. */
const MAX_SESSIONS = 1_000;

/** The sessions of signed-in browsers. They end with this process, which keeps only the hash of each cookie. */
export class Sessions {
  readonly #clock: Clock;
  readonly #cookie: string;
  readonly #byHash = new Map<string, Session>();

  /** @param port  the server's, for the cookie's name: browsers share cookies between the ports of a host */
  constructor(clock: Clock, port: number) {
    this.#clock = clock;
    this.#cookie = `weir_session_${port}`;
  }

  /** @returns the session, and the value of `Set-Cookie` */
  open(token: AdminToken, request: IncomingMessage): { readonly session: Session; readonly setCookie: string } {
    const id = randomBytes(32).toString('base64url');
    const session = { token, csrf: randomBytes(32).toString('base64url'), untilMs: this.#clock() + LIFETIME_MS };
    const ofToken = [...this.#byHash].filter(([, other]) => other.token.name === token.name);
    const [oldest] = ofToken;
    if (oldest && ofToken.length >= MAX_SESSIONS) this.#byHash.delete(oldest[0]);
    this.#byHash.set(sha256(id), session);
    return { session, setCookie: this.#cookieOf(id, LIFETIME_MS / 1_000, request) };
  }

  /** The session of a request; undefined: it has none. */
  of(request: IncomingMessage): Session | undefined {
    const hash = this.#hashIn(request);
    const session = hash === undefined ? undefined : this.#byHash.get(hash);
    if (!session || hash === undefined) return undefined;
    if (session.untilMs > this.#clock()) return session;
    this.#byHash.delete(hash);
    return undefined;
  }

  /** Ends the session of a request. @returns the value of `Set-Cookie` */
  close(request: IncomingMessage): string {
    const hash = this.#hashIn(request);
    if (hash !== undefined) this.#byHash.delete(hash);
    return this.#cookieOf('', 0, request);
  }

  /** Without `Path`, the cookie applies to the folder of its request, whatever prefix a proxy adds. */
  #cookieOf(value: string, maxAgeSeconds: number, { socket, headers }: IncomingMessage): string {
    const isTls = 'encrypted' in socket || headers['x-forwarded-proto'] === 'https';
    const secure = isTls ? '; Secure' : '';
    return `${this.#cookie}=${value}; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Strict${secure}`;
  }

  #hashIn({ headers: { cookie = '' } }: IncomingMessage): string | undefined {
    const start = `${this.#cookie}=`;
    const found = cookie.split('; ').find((one) => one.startsWith(start));
    return found && sha256(found.slice(start.length));
  }
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('base64url');

/** Whether a change comes from a page that has read the session's secret. */
function hasCsrf({ headers }: IncomingMessage, { csrf }: Session): boolean {
  const sent = Buffer.from(String(headers['x-weir-csrf'] ?? ''));
  const expected = Buffer.from(csrf);
  return sent.length === expected.length && timingSafeEqual(sent, expected);
}

/** read: may see callers' values. operate: may also make changes. */
const roles = ['read', 'operate'] as const;
type Role = (typeof roles)[number];

interface AdminToken {
  /** The name of its holder, for the audit log. */
  readonly name: string;
  readonly role: Role;
  readonly secret: string;
  /** The domains for which it is valid; undefined: all. */
  readonly domains?: readonly string[] | undefined;
  /** Made up at the start, since none is set, for clients on this machine. */
  readonly isLocal?: boolean;
}

const NAMED = /^([\w.-]{1,64}):(read|operate)(?:@([^:,+\s]+(?:\+[^:,+\s]+)*))?:(.+)$/;

/**
 * Reads ADMIN_TOKEN: one secret, which may do everything, or comma-separated `name:role:secret` of several holders,
 * with `role@domain+domain` for those of some domains.
 *
 * @returns the problem, without secrets, if a name occurs twice, or only some of several have this form
 */
export function parseTokens(written: string): readonly AdminToken[] | string {
  if (written === '') return [];
  const named = written.split(',').map((one) => NAMED.exec(one));
  if (named.every((one) => one === null)) return [{ name: 'admin', role: 'operate', secret: written }];
  const wrong = named.indexOf(null);
  if (wrong >= 0) return `token ${wrong + 1} of ${named.length} must be name:role:secret, with role read or operate`;
  const tokens = named.map((one) => {
    const [, name = '', role = '', domains, secret = ''] = one ?? [];
    const token = { name, role: role as Role, secret }; // guaranteed by the pattern
    return domains === undefined ? token : { ...token, domains: domains.split('+') };
  });
  return new Set(tokens.map(({ name }) => name)).size === tokens.length ? tokens : 'names must be unique';
}

/** The token of an `Authorization: Bearer …` header. Compares digests in constant time: timing reveals no token. */
export function findToken(authorization: string | undefined, tokens: readonly AdminToken[]): AdminToken | undefined {
  const [, secret = ''] = /^Bearer +(.*)$/i.exec(authorization ?? '') ?? [];
  const sent = digest(secret);
  return tokens.filter((token) => timingSafeEqual(sent, digest(token.secret))).at(0);
}

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
