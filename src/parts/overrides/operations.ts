import { fields, flag, oneOf, type ValueOf, whole } from '../../base/shape.ts';
import { parseTime } from '../../base/times.ts';
import type { ListedOverride, SetOverride } from '../../edge/http/shapes.ts';
import { MAX_UINT32 } from '../../edge/wire/wire.ts';
import { type Unit, unitMs } from '../../engine/algorithms/limit.ts';
import {
  type OverrideEffect,
  type OverrideName,
  overrideKey,
  type StandingOverride,
} from '../../engine/decide/overrides.ts';
import { type Entry, inRuleOrder, match, withIds } from '../../engine/rules/match/match.ts';
import { type ApiOperation, operation } from '../../operate/admin/api.ts';
import type { AdminOptions } from '../../operate/admin/options.ts';
import {
  type ChangeBody,
  changeFields,
  refuseHashes,
  refuseWithoutWildcard,
  time,
} from '../../operate/admin/parameters.ts';
import { ApiProblem } from '../../operate/admin/problem.ts';
import { listedOverride, type Shown, shownBy } from '../../operate/admin/shown.ts';
import { findStop, search, whyWithoutValues } from '../lab/stop.ts';
import type { OverrideRecords } from './override-records.ts';

interface OverrideOptions extends Pick<AdminOptions, 'audit' | 'clock' | 'hash' | 'rules'> {
  readonly overrides: Pick<OverrideRecords, 'follow' | 'put' | 'remove'>;
}

const units = Object.keys(unitMs) as readonly Unit[]; // unitMs has only units as keys

/** The longest that an override lasts. */
const MAX_MS = unitMs.YEAR;

/** Operations on overrides of descriptors. */
export function overrideOperations(options: OverrideOptions): readonly ApiOperation[] {
  return [
    operation('GET /api/v1/overrides', {
      summary: 'limits, blocks and exemptions that are set for descriptors',
      need: 'read',
      domains: 'selected',
      answers: 'All overrides.',
      answer: async ({ scope }) => {
        const all = await options.overrides.follow();
        return { overrides: all.filter(({ domain }) => scope.hasDomain(domain)).map((one) => listed(one, options)) };
      },
    }),
    operation('PUT /api/v1/overrides', {
      summary: 'sets a limit, a block or an exemption for one descriptor, or for all that fit wildcards, until a time',
      need: 'operate',
      domains: 'named',
      body: setBody,
      answers: 'The override; `warning` is present if its descriptor matches no rule now.',
      answer: ({ client, body }) => set(options, client.name, body),
    }),
    operation('DELETE /api/v1/overrides', {
      summary: 'removes an override',
      need: 'operate',
      domains: 'named',
      body: fields(changeFields, wildcardField),
      answers: 'The removed override.',
      answer: ({ client, body }) => remove(options, client.name, body),
    }),
  ];
}

const wildcardField = {
  wildcard: {
    ...flag,
    description: 'each value that ends in `*` stands for all values that begin with what precedes the `*`',
  },
};

const setBody = fields(
  {
    ...changeFields,
    effect: oneOf('limit', 'block', 'exempt'),
    until: { ...time, description: 'RFC 3339, at most a year from now' },
  },
  {
    requestsPerUnit: { ...whole, minimum: 0, maximum: MAX_UINT32, description: 'of a limit' },
    unit: { ...oneOf(...units), description: 'of a limit' },
    ...wildcardField,
  },
);
type SetBody = ValueOf<typeof setBody>;

async function set(options: OverrideOptions, by: string, body: SetBody): Promise<SetOverride> {
  refuseHashes(body.descriptor, options.hash);
  if (body.wildcard) refuseWithoutWildcard(body.descriptor);
  const override: StandingOverride = {
    domain: body.domain,
    entries: inOrderOfRules(options, body.domain, body.descriptor),
    ...(body.wildcard && { wildcard: true }),
    effect: parseEffect(body),
    untilMs: parseUntil(body.until, options.clock()),
    by,
    reason: body.reason,
  };
  const before = await known(options, override);
  const change = { who: by, change: 'override set', reason: body.reason, what: auditedName(override, options) };
  const states = { before: before && listed(before, options), after: listed(override, options) };
  await options.audit.change({ ...change, ...states }, () => options.overrides.put(override));
  const warning = noEffect(options, override);
  return { ...listed(override, options), ...(warning !== undefined && { warning }) };
}

/** The entries in the order in which they are counted. */
function inOrderOfRules({ rules }: OverrideOptions, name: string, entries: readonly Entry[]): readonly Entry[] {
  const found = rules()?.domains.get(name);
  return found ? inRuleOrder(found, entries) : entries;
}

/** Why an override has no effect: neither requests with its entries nor those of its counter match a rule. */
function noEffect(
  { rules, hash }: OverrideOptions,
  { domain: name, entries, wildcard }: OverrideName,
): string | undefined {
  const tree = rules();
  if (!tree) return undefined;
  const isMet = (one: readonly Entry[]): boolean =>
    'rule' in match(tree, name, { entries: one, requestLimit: undefined });
  const counted = withIds(tree, name, entries);
  if (counted.some(isMet) || (wildcard && counted.length > 0)) return undefined;
  const stop = findStop(search(tree, name, { entries, requestLimit: undefined }));
  const isOfValues = stop && stop.level > 0 && (stop.level > 1 || stop.reason !== 'no_such_key');
  if (!stop || (wildcard && isOfValues)) return undefined; // other values, which fit the wildcards, may match
  const why = hash ? whyWithoutValues(stop, entries) : stop.why;
  return `it has no effect while the descriptor matches no rule: ${why}`;
}

async function remove(
  options: OverrideOptions,
  by: string,
  { domain: name, descriptor: entries, wildcard, reason: why }: ChangeBody & { readonly wildcard?: boolean },
): Promise<ListedOverride> {
  const own = inOrderOfRules(options, name, entries);
  const named: OverrideName = { domain: name, entries: own, ...(wildcard && { wildcard }) };
  const asListed = options.hash;
  const found = (await known(options, named)) ?? (asListed && (await known(options, named, asListed)));
  if (!found) throw new ApiProblem(404, 'the descriptor has no override');
  const before = listed(found, options);
  const change = { who: by, change: 'override removed', reason: why, what: auditedName(found, options) };
  await options.audit.change({ ...change, before, after: null }, () => options.overrides.remove(found));
  return before;
}

/** The override's name in the audit log. */
function auditedName(override: StandingOverride, options: OverrideOptions) {
  const { domain: name, descriptor: written } = listed(override, options);
  return { domain: name, descriptor: written, ...(override.wildcard && { wildcard: true }) };
}

/** An override, with hashed values if operators see only these. */
const listed = (override: StandingOverride, { hash }: OverrideOptions): ListedOverride =>
  listedOverride(override, shownBy(true, hash));

async function known(
  options: Pick<OverrideOptions, 'overrides'>,
  named: OverrideName,
  shown: Shown = (value) => value,
): Promise<StandingOverride | undefined> {
  const key = overrideKey(named);
  const all = await options.overrides.follow();
  return all.find((one) => {
    const { domain: name, entries } = listedOverride(one, shown);
    return overrideKey({ ...one, domain: name, entries }) === key;
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
