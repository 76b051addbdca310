import { hashValue } from '../../base/hashed.ts';
import type { Answer } from '../../engine/decide/decide.ts';
import type { StandingOverride } from '../../engine/decide/overrides.ts';
import { type Entry, match } from '../../engine/rules/match/match.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { remainingOf } from '../../engine/wire/codec.ts';
import { MAX_UINT32, nameOf, unitNumbers, type WireDescriptor, type WireRequest } from '../../engine/wire/wire.ts';
import type { LineDescriptor, RequestLineFields } from '../../lab/record/format.ts';
import { needsValue } from '../../lab/record/hashing.ts';

/** An answered request whose line is not written yet. */
export interface AnsweredRequest {
  readonly request: WireRequest;
  readonly answer: Answer;
  readonly timeMs: number;
  readonly timeoutMs: number;
  /** The rules that it was matched with. */
  readonly rules: RuleTree | undefined;
}

/** The body of `/json` for a request, with its answer. */
export function requestLine(answered: AnsweredRequest, hashKey: string | undefined): string {
  const { request, answer, timeMs, timeoutMs, rules } = answered;
  const { domain, descriptors, hits_addend } = request;
  const hash = hashKey === undefined || !rules ? undefined : { key: hashKey, rules };
  const fields: RequestLineFields = {
    time: timeMs,
    ...(Number.isFinite(timeoutMs) && { timeoutMs: Math.floor(timeoutMs) }),
    answer: {
      code: answer.overallCode,
      descriptors: answer.verdicts.map((verdict) => lineOf(verdict, hash !== undefined)),
    },
    ...(hash && { hashed: true }),
  };
  return JSON.stringify({
    domain,
    descriptors: descriptors.map((one) =>
      descriptorOf(one, hash ? hashedEntries(hash.rules, domain, one.entries, hash.key) : one.entries),
    ),
    ...(hits_addend !== 0 && { hitsAddend: hits_addend }),
    ...fields,
  });
}

function descriptorOf({ limit, hits_addend, is_negative_hits }: WireDescriptor, entries: readonly Entry[]): object {
  return {
    entries: entries.map(({ key, value }) => ({ key, value })),
    ...(limit && {
      limit: {
        requestsPerUnit: limit.requests_per_unit,
        unit: limit.unit === unitNumbers.WEEK ? limit.unit : (nameOf(unitNumbers, limit.unit) ?? limit.unit),
        ...(limit.unit_multiplier && { unitMultiplier: limit.unit_multiplier.value }),
      },
    }),
    ...(hits_addend && { hitsAddend: hits_addend.value }),
    ...(is_negative_hits && { isNegativeHits: true }),
  };
}

function lineOf(verdict: Answer['verdicts'][number], isHashed: boolean): LineDescriptor {
  switch (verdict.kind) {
    case 'limited': {
      const { path, place } = verdict.rule;
      const showsValues = place === undefined; // a limit from the request: its path has plain values
      return {
        ...{ code: verdict.code, remaining: remainingOf(verdict) },
        ...(!(isHashed && showsValues) && { rule: path }),
      };
    }
    case 'unlimited':
      return { code: 'OK', remaining: MAX_UINT32, rule: verdict.rule.path };
    default:
      return { code: 'OK', remaining: 0 };
  }
}

/** The entries, with hashes instead of the values that no rule was chosen by. */
export function hashedEntries(
  rules: RuleTree,
  domain: string,
  entries: readonly Entry[],
  hashKey: string,
): readonly Entry[] {
  const hashed: Entry[] = [];
  match(
    rules,
    domain,
    { entries, requestLimit: undefined },
    {
      observer: {
        onLevel(entry, level, found) {
          hashed.push(needsValue(level, entry, found) ? entry : hashedEntry(entry, hashKey));
        },
      },
    },
  );
  for (const entry of entries.slice(hashed.length)) hashed.push(hashedEntry(entry, hashKey)); // below the last rule
  return hashed;
}

const hashedEntry = ({ key, value }: Entry, hashKey: string): Entry => ({ key, value: hashValue(value, hashKey) });

/** The overrides that operators have set, without the operators' names and reasons. */
export function overridesLine(
  overrides: Iterable<StandingOverride>,
  rules: RuleTree | undefined,
  hashKey: string | undefined,
): string {
  const written = Array.from(overrides, (one) => ({
    ...one,
    entries: hashKey === undefined || !rules ? one.entries : hashedEntries(rules, one.domain, one.entries, hashKey),
    by: '',
    reason: '',
  }));
  return JSON.stringify({ overrides: written });
}
