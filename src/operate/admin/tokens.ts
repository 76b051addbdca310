import { createHash, timingSafeEqual } from 'node:crypto';

/** read: may see callers' values. operate: may also make changes. */
const roles = ['read', 'operate'] as const;
export type Role = (typeof roles)[number];

export interface AdminToken {
  /** The name of its holder, for the audit log. */
  readonly name: string;
  readonly role: Role;
  readonly secret: string;
}

const NAMED = /^([\w.-]{1,64}):(read|operate):(.+)$/;

/**
 * Reads ADMIN_TOKEN: one secret, which may do everything, or comma-separated `name:role:secret` of several holders.
 *
 * @returns undefined if a name occurs twice
 */
export function parseTokens(written: string): readonly AdminToken[] | undefined {
  if (written === '') return [];
  const named = written.split(',').map((one) => NAMED.exec(one));
  if (!named.every((one) => one !== null)) return [{ name: 'admin', role: 'operate', secret: written }];
  // guaranteed by the pattern
  const tokens = named.map(([, name = '', role = '', secret = '']) => ({ name, role: role as Role, secret }));
  return new Set(tokens.map(({ name }) => name)).size === tokens.length ? tokens : undefined;
}

/**
 * The token of an `Authorization: Bearer …` header. Compares digests in constant time, so that neither length nor
 * timing reveals a token.
 */
export function tokenOf(authorization: string | undefined, tokens: readonly AdminToken[]): AdminToken | undefined {
  const [, secret = ''] = /^Bearer +(.*)$/i.exec(authorization ?? '') ?? [];
  const sent = digest(secret);
  return tokens.filter((token) => timingSafeEqual(sent, digest(token.secret))).at(0);
}

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
