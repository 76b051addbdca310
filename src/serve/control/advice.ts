import { randomInt } from 'node:crypto';
import { every } from '../../base/clock.ts';
import type { Hash } from '../../base/hashed.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import type { LiveAdvice } from '../../operate/admin/live-advice.ts';
import type { Settings } from '../../settings/settings.ts';
import type { Responders } from '../link/responders.ts';

/** Follows keys from now on. Undefined if arrivals are not followed: the module is not loaded then. */
export async function openAdvice(
  { advice }: Pick<Settings, 'advice'>,
  { rules, hash }: { readonly rules: () => RuleTree | undefined; readonly hash: Hash | undefined },
  { ask }: Pick<Responders, 'ask'>,
): Promise<LiveAdvice | undefined> {
  if (advice.maxBytes === 0) return undefined;
  const { LiveAdvice } = await import('../../operate/admin/live-advice.ts');
  return new LiveAdvice({
    ...{ maxBytes: advice.maxBytes, ask, every, rules },
    seed: randomInt(2 ** 31),
    hash,
  });
}
