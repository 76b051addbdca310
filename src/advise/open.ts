import { randomInt } from 'node:crypto';
import type { Clock } from '../clock.ts';
import type { Hash } from '../hashed.ts';
import { every } from '../process-context.ts';
import type { RuleTree } from '../rules/tree.ts';
import type { Settings } from '../settings.ts';
import type { Responders } from '../workers/responders.ts';
import type { ArrivalLog } from './arrival-log.ts';
import type { LiveAdvice } from './live-advice.ts';

/** Logs the arrivals at this process. Undefined if arrivals are not followed: the module is not loaded then. */
export async function openArrivals(
  { advice }: Pick<Settings, 'advice'>,
  clock: Clock,
): Promise<ArrivalLog | undefined> {
  if (advice.maxBytes === 0) return undefined;
  const { ArrivalLog } = await import('./arrival-log.ts');
  return new ArrivalLog(clock);
}

/** Follows keys from now on. Undefined if arrivals are not followed: the module is not loaded then. */
export async function openAdvice(
  { advice }: Pick<Settings, 'advice'>,
  { rules, hash }: { readonly rules: () => RuleTree | undefined; readonly hash: Hash | undefined },
  { ask }: Pick<Responders, 'ask'>,
): Promise<LiveAdvice | undefined> {
  if (advice.maxBytes === 0) return undefined;
  const { LiveAdvice } = await import('./live-advice.ts');
  return new LiveAdvice({
    ...{ maxBytes: advice.maxBytes, ask, every, rules },
    seed: randomInt(2 ** 31),
    hash,
  });
}
