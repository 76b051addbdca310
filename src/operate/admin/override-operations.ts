import type { Hash } from '../../base/hashed.ts';
import { fields, oneOf, type ValueOf, whole } from '../../base/shape.ts';
import { parseTime } from '../../base/times.ts';
import type { ListedOverride, SetOverride } from '../../edge/http/shapes.ts';
import { type Unit, unitMs } from '../../engine/algorithms/limit.ts';
import {
  descriptorKey,
  type OverrideEffect,
  type Overrides,
  type StandingOverride,
} from '../../engine/decide/overrides.ts';
import { descriptorText } from '../../engine/rules/match/descriptor-text.ts';
import { type Entry, inRuleOrder, match, withIds } from '../../engine/rules/match/match.ts';
import { findStop, search } from '../../engine/rules/match/stop.ts';
import { MAX_UINT32 } from '../../engine/wire/wire.ts';
import { type ApiOperation, operation } from './api.ts';
import type { AdminOptions } from './options.ts';
import { type ChangeBody, changeBody, changeFields, refuseHashes, time } from './parameters.ts';
import { ApiProblem } from './problem.ts';
import { describeOverride, HIDDEN, type Shown, shownBy, shownEntries } from './shown.ts';
import { whyWithoutValues } from './unmatched.ts';

type OverrideOptions = Pick<AdminOptions, 'overrides' | 'audit' | 'clock' | 'hash' | 'rules'>;

const units = Object.keys(unitMs) as readonly Unit[]; // unitMs has only units as keys

/** The longest that an override lasts. */
const MAX_MS = unitMs.YEAR;

/** Operations on overrides of single descriptors. */
export function overrideOperations(options: OverrideOptions): readonly ApiOperation[] {
  const shown = (override: StandingOverride) => listedOverride(override, shownBy(true, options.hash));
  return [
    operation('GET /api/v1/overrides', {
      summary: 'limits, blocks and exemptions that are set for single descriptors',
      need: 'read',
      answers: 'All overrides.',
      answer: async () => ({ overrides: (await options.overrides.follow()).map(shown) }),
    }),
    operation('PUT /api/v1/overrides', {
      summary: 'sets a limit, a block or an exemption for one descriptor, until a time',
      need: 'operate',
      body: setBody,
      answers: 'The override; `warning` is present if its descriptor matches no rule now.',
      answer: ({ client, body }) => set(options, client.name, body),
    }),
    operation('DELETE /api/v1/overrides', {
      summary: 'removes the override of one descriptor',
      need: 'operate',
      body: changeBody,
      answers: 'The removed override.',
      answer: ({ client, body }) => remove(options, client.name, body),
    }),
  ];
}

const setBody = fields(
  {
    ...changeFields,
    effect: oneOf('limit', 'block', 'exempt'),
    until: { ...time, description: 'RFC 3339, at most a year from now' },
  },
  {
    requestsPerUnit: { ...whole, minimum: 0, maximum: MAX_UINT32, description: 'of a limit' },
    unit: { ...oneOf(...units), description: 'of a limit' },
  },
);
type SetBody = ValueOf<typeof setBody>;

async function set(options: OverrideOptions, by: string, body: SetBody): Promise<SetOverride> {
  refuseHashes(body.descriptor, options.hash);
  const shown = (one: StandingOverride) => listedOverride(one, shownBy(true, options.hash));
  const override: StandingOverride = {
    domain: body.domain,
    entries: inOrderOfRules(options, body.domain, body.descriptor),
    effect: parseEffect(body),
    untilMs: parseUntil(body.until, options.clock()),
    by,
    reason: body.reason,
  };
  const before = await known(options, override);
  const change = { who: by, change: 'override set', reason: body.reason, what: auditedName(override, options) };
  await options.audit.change({ ...change, before: before && shown(before), after: shown(override) }, () =>
    options.overrides.put(override),
  );
  const warning = noEffect(options, override);
  return { ...shown(override), ...(warning !== undefined && { warning }) };
}

/** The entries in the order in which they are counted. */
function inOrderOfRules({ rules }: OverrideOptions, name: string, entries: readonly Entry[]): readonly Entry[] {
  const found = rules()?.domains.get(name);
  return found ? inRuleOrder(found, entries) : entries;
}

/** Why an override has no effect: neither requests with its entries nor those of its counter match a rule. */
function noEffect({ rules, hash }: OverrideOptions, { domain: name, entries }: Named): string | undefined {
  const tree = rules();
  if (!tree) return undefined;
  const isMet = (one: readonly Entry[]): boolean =>
    'rule' in match(tree, name, { entries: one, requestLimit: undefined });
  if (withIds(tree, name, entries).some(isMet)) return undefined;
  const stop = findStop(search(tree, name, { entries, requestLimit: undefined }));
  if (!stop) return undefined;
  const why = hash ? whyWithoutValues(stop, entries) : stop.why;
  return `it has no effect while the descriptor matches no rule: ${why}`;
}

async function remove(
  options: OverrideOptions,
  by: string,
  { domain: name, descriptor: entries, reason: why }: ChangeBody,
): Promise<ListedOverride> {
  const named = { domain: name, entries: inOrderOfRules(options, name, entries) };
  const asListed = options.hash;
  const found = (await known(options, named)) ?? (asListed && (await known(options, named, asListed)));
  if (!found) throw new ApiProblem(404, 'the descriptor has no override');
  const before = listedOverride(found, shownBy(true, options.hash));
  const change = { who: by, change: 'override removed', reason: why, what: auditedName(found, options) };
  await options.audit.change({ ...change, before, after: null }, () => options.overrides.remove(found));
  return before;
}

type Named = Pick<StandingOverride, 'domain' | 'entries'>;

const shownName = ({ domain: name, entries }: Named, shown: Shown) => {
  const own = shownEntries(entries, shown);
  return { domain: name, descriptor: descriptorText(own), entries: own };
};

/** The override's name in the audit log. */
function auditedName(named: Named, { hash }: OverrideOptions): Pick<ListedOverride, 'domain' | 'descriptor'> {
  const { domain: name, descriptor: written } = shownName(named, shownBy(true, hash));
  return { domain: name, descriptor: written };
}

/** An override as the API shows it to operators. */
const listedOverride = (override: StandingOverride, shown: Shown): ListedOverride => ({
  ...describeOverride(override),
  ...shownName(override, shown),
});

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

async function known(
  options: Pick<OverrideOptions, 'overrides'>,
  { domain: name, entries }: Named,
  shown: Shown = (value) => value,
): Promise<StandingOverride | undefined> {
  const key = descriptorKey(name, entries);
  const all = await options.overrides.follow();
  return all.find((one) => {
    const listed = shownName(one, shown);
    return descriptorKey(listed.domain, listed.entries) === key;
  });
}

function parseEffect({ effect, requestsPerUnit, unit }: SetBody): OverrideEffect {
  if (effect === 'limit') {
    if (requestsPerUnit === undefined || !unit)
      throw new ApiProblem(400, 'the body is not valid: a limit needs requestsPerUnit and unit');
    return { kind: 'limit', requestsPerUnit, unit };
  }
  if (requestsPerUnit !== undefined || unit)
    throw new ApiProblem(400, 'the body is not valid: requestsPerUnit and unit require the effect limit');
  return { kind: effect };
}

function parseUntil(text: string, nowMs: number): number {
  const untilMs = parseTime(text);
  if (untilMs === undefined)
    throw new ApiProblem(400, `the body is not valid: until must be a time of RFC 3339, got '${text}'`);
  if (untilMs <= nowMs || untilMs > nowMs + MAX_MS)
    throw new ApiProblem(400, 'the body is not valid: until must be within a year from now');
  return untilMs;
}
