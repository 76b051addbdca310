import { groupBy } from '../../../base/group.ts';
import { descriptorText } from '../../../edge/listing/descriptor-text.ts';
import type { Entry } from '../../../engine/rules/match/match.ts';
import { type AskParts, askPart } from '../../../operate/admin/ask-part.ts';
import { countBounds, sampleConfidence, unlistedAtMost } from './sampling-error.ts';
import type { ShownKey, ShownTop, TopKind } from './shapes.ts';
import { mergeTop, type TopList } from './space-saving.ts';
import { SEPARATOR } from './top-name.ts';

/** The most frequent keys of a rule, or of those that share a table. */
export interface RuleTop {
  readonly rule: string;
  readonly by: TopKind;
  readonly list: TopList;
  /** In `list`, at least one hit in this many was counted: see `Sample`. */
  readonly countedOneIn: number;
}

/** At most this many rules, or one. */
export interface SelectedRules {
  readonly rules?: number;
  readonly rule?: string | undefined;
}

/** The clients of a rule with the most refused requests. */
export interface RefusedTop extends RuleTop {
  /** For each entry of the list, its refused hits and all of its hits. */
  readonly hits: readonly (readonly [refused: number, all: number])[];
}

/** Asks for the clients with the most refused requests: `keys` of each of `rules` rules. */
export interface ClientsQuestion {
  readonly rules: number;
  readonly keys: number;
}

/** What the part `top` of a decider is asked. */
export type TopQuestion =
  | ({ readonly kind: 'top'; readonly by: TopKind } & SelectedRules)
  | ({ readonly kind: 'clients' } & ClientsQuestion);

/** The most frequent keys of all processes: one list for each rule, the highest total first; none if nothing counts them. */
export async function readTop(
  options: { readonly ask: AskParts },
  question: { readonly by: TopKind } & SelectedRules,
): Promise<readonly RuleTop[]> {
  return mergeRules(await askPart(options, 'top', { kind: 'top', ...question } satisfies TopQuestion));
}

/** A key of a table, for operators. */
interface DescribedKey {
  /** Absent: the rule of the list. */
  readonly rule?: string;
  readonly entries: readonly Entry[];
  /** The end of the descriptor was cut off, since it is too long. */
  readonly cut?: true;
}

/** Parses the name of a descriptor; the table may have cut off its end. */
export function describeKey(key: string): DescribedKey {
  const start = key.startsWith('|') ? -1 : key.indexOf(SEPARATOR);
  const texts: string[] = [];
  let isCut = false;
  for (let at = start + 1; at < key.length && !isCut; ) {
    const colon = key.indexOf(':', at);
    const end = colon + 1 + Number(key.slice(at + 1, colon));
    isCut = colon < 0 || !(end <= key.length);
    if (colon >= 0) texts.push(key.slice(colon + 1, isCut ? key.length : end));
    at = end;
  }
  const entries = Array.from({ length: Math.ceil(texts.length / 2) }, (_, at) => ({
    key: texts[2 * at] ?? '',
    value: texts[2 * at + 1] ?? '',
  }));
  return { ...(start >= 0 && { rule: key.slice(0, start) }), entries, ...(isCut && { cut: true }) };
}

/** Merges the lists of several processes: one list for each rule. */
export function mergeRules(all: readonly (readonly RuleTop[])[]): readonly RuleTop[] {
  const byRule = groupBy(all.flat(), ({ rule }) => rule);
  const merged = Array.from(byRule.values(), mergeTables);
  return merged.sort((one, other) => other.list.total - one.list.total);
}

const mergeTables = (tops: readonly RuleTop[]): RuleTop => ({
  ...(tops[0] as RuleTop), // at least one
  list: mergeTop(tops.map(({ list }) => list)),
  countedOneIn: Math.max(...tops.map(({ countedOneIn }) => countedOneIn)),
});

/** A rule's most frequent descriptors. @param hash  hashes callers' values; undefined: they are shown unchanged */
export function describeTop(top: RuleTop, count: number, hash: ((text: string) => string) | undefined): ShownTop {
  const { rule, countedOneIn, list } = top;
  const keys = list.entries.slice(0, count).map(({ key, count: estimate, error }): ShownKey => {
    const hits = Math.round(estimate); // refused requests are fractions if requests are sampled
    const { entries: own, ...more } = describeKey(key);
    const shown = hash ? own.map((entry) => ({ key: entry.key, value: hash(entry.value) })) : own;
    const descriptor = more.rule === undefined ? descriptorText(shown) : `${more.rule} ${descriptorText(shown)}`;
    const counted = { hits, ...countBounds(hits, error, countedOneIn) };
    return { ...more, descriptor, ...(!hash && { entries: own }), ...counted };
  });
  const bounds = { unlistedAtMost: unlistedAtMost(top), countedOneIn, confidence: sampleConfidence(countedOneIn) };
  return { rule, total: Math.round(list.total), ...bounds, keys };
}
