import type { Hash } from '../../base/hashed.ts';
import { rfc3339 } from '../../base/times.ts';
import type { ListedOverride, ShownOverride } from '../../edge/http/shapes.ts';
import { descriptorText } from '../../edge/listing/descriptor-text.ts';
import { NEVER_MS } from '../../engine/algorithms/limit.ts';
import type { Overrides, StandingOverride } from '../../engine/decide/overrides.ts';
import type { Entry } from '../../engine/rules/match/match.ts';

/** Turns a value that a caller sent into the text to show. */
export type Shown = (value: string) => string;

/** What is shown in place of what a client may not see. */
export const HIDDEN = '(hidden)';

/** @param hash  undefined: values are shown unchanged */
export const shownBy = (seesValues: boolean, hash: Hash | undefined): Shown => {
  if (!seesValues) return () => HIDDEN;
  return hash ?? ((value) => value);
};

export const shownEntries = (entries: readonly Entry[], shown: Shown): readonly Entry[] =>
  entries.map(({ key, value }) => ({ key, value: shown(value) }));

export const describeOverride = ({
  entries,
  wildcard,
  effect,
  untilMs,
  by,
  reason,
}: StandingOverride): ShownOverride => ({
  entries,
  ...(wildcard && { wildcard }),
  effect: effect.kind === 'limit' ? `${effect.requestsPerUnit} per ${effect.unit.toLowerCase()}` : effect.kind,
  until: rfc3339(untilMs),
  by,
  reason,
});

/** An override as the API shows it to operators. */
export function listedOverride(override: StandingOverride, shown: Shown): ListedOverride {
  const isPlain = ({ value }: Entry) => override.wildcard && value.endsWith('*') && shown('') !== HIDDEN; // of no caller
  const entries = override.entries.map((one) => (isPlain(one) ? one : { ...one, value: shown(one.value) }));
  return { ...describeOverride(override), domain: override.domain, descriptor: descriptorText(entries), entries };
}

/**
 * All overrides that this process follows.
 *
 * @param seesValues  else values of callers are hidden, and reasons, which often name a caller
 */
export function* listOverrides(
  overrides: Pick<Overrides, 'all'>,
  seesValues: boolean,
  hash: Hash | undefined,
): Iterable<ListedOverride> {
  for (const override of overrides.all()) {
    const listed = listedOverride(override, shownBy(seesValues, hash));
    yield seesValues ? listed : { ...listed, reason: HIDDEN };
  }
}

/** How long until a request could pass; null: never. */
export const passesInMs = (retryAfterMs: number | undefined): number | null =>
  retryAfterMs === NEVER_MS ? null : (retryAfterMs ?? 0);
