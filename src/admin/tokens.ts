import { createHash, timingSafeEqual } from 'node:crypto';

/** read: callers' values. operate: changes, too. */
export const roles = ['read', 'operate'] as const;
export type Role = (typeof roles)[number];

export interface AdminToken {
  /** Its holder, for the audit log. */
  readonly name: string;
  readonly role: Role;
  readonly secret: string;
}

const NAMED = /^([\w.-]{1,64}):(read|operate):(.+)$/;

/**
 * Reads ADMIN_TOKEN: one secret, which may do everything, or comma-separated `name:role:secret` of several holders.
 *
 * @returns undefined  names that are there twice
 */
export function parseTokens(written: string): readonly AdminToken[] | undefined {
  if (written === '') return [];
  const named = written.split(',').map((one) => NAMED.exec(one));
  if (!named.every((one) => one !== null)) return [{ name: 'admin', role: 'operate', secret: written }];
  // as the pattern says
  const tokens = named.map(([, name = '', role = '', secret = '']) => ({ name, role: role as Role, secret }));
  return new Set(tokens.map(({ name }) => name)).size === tokens.length ? tokens : undefined;
}

/**
 * The token of an `Authorization: Bearer …` header. Compares digests: their length, and the time it takes, say nothing
 * about a token.
 */
export function tokenOf(authorization: string | undefined, tokens: readonly AdminToken[]): AdminToken | undefined {
  const [, secret = ''] = /^Bearer +(.*)$/i.exec(authorization ?? '') ?? [];
  const sent = digest(secret);
  return tokens.filter((token) => timingSafeEqual(sent, digest(token.secret))).at(0);
}

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
