import { createHash, createHmac } from 'node:crypto';
import type { Entry } from '../rules/match.ts';
import type { Level, Node, RuleTree } from '../rules/tree.ts';

const MARK = '#';
/** Characters of a hash: 96 bits. */
const HASH_CHARACTERS = 16;
const HASHED = /^#[\w-]{16}$/;

/** The same value has the same hash under the same key, so that what is counted together stays together. */
export const hashValue = (value: string, key: string): string =>
  MARK + createHmac('sha256', key).update(value).digest('base64url').slice(0, HASH_CHARACTERS);

export const isHashedValue = (value: string): boolean => HASHED.test(value);

/** Whether a level chose its node by the value: then the value has to stay as it is. */
export function needsValue(level: Level | undefined, { key, value }: Entry, found: Node | undefined): boolean {
  if (!level || !found) return false;
  const branch = level.byKey.get(key);
  if (branch && branch.anyValue === found) return false;
  if (branch?.byValue.get(value) === found) return true;
  const chosen = (branch?.wildcards ?? level.keyWildcards).all.find(({ node }) => node === found);
  return chosen?.value !== undefined;
}

/** Same digest: the rules match alike, whatever their limits. */
export const matchDigest = ({ rules }: RuleTree): string =>
  createHash('sha256')
    .update(rules.map(({ path }) => path).join('\n'))
    .digest('base64url')
    .slice(0, HASH_CHARACTERS);
