import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Clock } from '../../base/clock.ts';
import type { AdminToken } from './tokens.ts';

/** A signed-in browser. */
interface Session {
  readonly token: AdminToken;
  /** Sent back in `x-weir-csrf` with every change: a page of another site cannot read it. */
  readonly csrf: string;
  readonly untilMs: number;
}

const LIFETIME_MS = 12 * 60 * 60 * 1_000;

/** Of each role; if there are more, the oldest session of the role ends. */
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
    const ofRole = [...this.#byHash].filter(([, other]) => other.token.role === token.role);
    const [oldest] = ofRole;
    if (oldest && ofRole.length >= MAX_SESSIONS) this.#byHash.delete(oldest[0]);
    this.#byHash.set(hashOf(id), session);
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
    return found && hashOf(found.slice(start.length));
  }
}

const hashOf = (text: string): string => createHash('sha256').update(text).digest('base64url');

/** Whether a change comes from a page that has read the session's secret. */
export function hasCsrf({ headers }: IncomingMessage, { csrf }: Session): boolean {
  const sent = Buffer.from(String(headers['x-weir-csrf'] ?? ''));
  const expected = Buffer.from(csrf);
  return sent.length === expected.length && timingSafeEqual(sent, expected);
}
