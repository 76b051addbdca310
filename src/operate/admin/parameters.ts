import { type Hash, isHash } from '../../base/hashed.ts';
import { nearest } from '../../base/nearest.ts';
import { text as anyText, fields, type JsonShape, listOf, type ValueOf, whole } from '../../base/shape.ts';
import { InvalidDescriptor, parseDescriptor } from '../../edge/listing/descriptor-text.ts';
import { maximumRequest } from '../../edge/wire/wire.ts';
import type { Entry } from '../../engine/rules/match/match.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { ApiProblem } from './problem.ts';
import { closed } from './schema.ts';

export const text: JsonShape<string> = { ...anyText, maxLength: maximumRequest.textLength };
const entry = closed(fields({ key: { ...text, minLength: 1 }, value: text }));
export const descriptor = { ...listOf(entry), minItems: 1, maxItems: maximumRequest.entries };
export const domain = { ...text, minLength: 1 };
export const reason: JsonShape<string> = {
  ...anyText,
  minLength: 1,
  maxLength: 500,
  pattern: '\\S',
  description: 'reason, for the audit log',
};
export const time: JsonShape<string> = { ...anyText, maxLength: 40 };

export const onlyDomain = { ...domain, description: 'only this domain' };
export const onlyRule = { ...text, description: 'the path of one rule' };

/** The parameter `count` of a list. */
export const pageSize = (maximum: number) => ({
  ...whole,
  minimum: 1,
  maximum,
  description: 'the most items to return',
});

/** The syntax of a descriptor as a parameter, in Markdown. */
export const DESCRIPTOR_QUERY =
  '`key=value[,key=value…]`, with `\\,` for a comma in a value and `\\\\` for a backslash';

/** The body of a change to one descriptor. */
export const changeFields = { domain, descriptor, reason };
export const changeBody = fields(changeFields);
export type ChangeBody = ValueOf<typeof changeBody>;

/**
 * Refuses a descriptor copied from a page that shows values hashed (`HASH_KEYS`), since a change would act on the text
 * of the hash.
 *
 * @throws ApiProblem  400
 */
export function refuseHashes(entries: readonly Entry[], hash: Hash | undefined): void {
  const found = hash ? entries.find(({ value }) => isHash(value)) : undefined;
  if (found) throw new ApiProblem(400, `'${found.value}' is how HASH_KEYS shows a value: give the value itself`);
}

/** @throws ApiProblem  400: no value of a descriptor with wildcards ends in `*` */
export function refuseWithoutWildcard(entries: readonly Entry[]): void {
  if (!entries.some(({ value }) => value.endsWith('*')))
    throw new ApiProblem(400, 'with wildcards, a value of the descriptor must end in *');
}

/** Rules among which the nearest name of an unknown one is searched. */
const MAX_COMPARED_NAMES = 20_000;

/**
 * Refuses the path of a rule that does not exist, which would look like a rule without traffic.
 *
 * @throws ApiProblem  404
 */
export function refuseUnknownRule(rules: RuleTree | undefined, path: string): void {
  const paths = Array.from(rules?.rules ?? [], (rule) => rule.path);
  if (paths.includes(path)) return;
  const meant = nearest(path, paths.slice(0, MAX_COMPARED_NAMES));
  const hint = meant === undefined ? '/rlconfig lists all' : `did you mean '${meant}'?`;
  throw new ApiProblem(404, `no rule has the path '${path}'; ${hint}`);
}

/**
 * Reads `key=value[,key=value…]`.
 *
 * @throws ApiProblem  400
 */
export function readDescriptor(written: string): readonly Entry[] {
  try {
    return parseDescriptor(written);
  } catch (error) {
    throw error instanceof InvalidDescriptor ? new ApiProblem(400, error.message) : error;
  }
}
