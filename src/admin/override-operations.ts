import { type Unit, unitMs } from '../algorithms/limit.ts';
import type { Clock } from '../clock.ts';
import { descriptorKey, type OverrideEffect, type StandingOverride } from '../overrides.ts';
import { type ApiOperation, operation } from './api.ts';
import type { Audit } from './audit.ts';
import { describeOverride } from './explain.ts';
import type { OverrideRecords } from './override-records.ts';
import { descriptor, domain, MAX_HITS, noQuery, reason } from './parameters.ts';
import { ApiProblem } from './problem.ts';
import { object } from './schema.ts';
import { parseTime } from './times.ts';

export interface OverrideOptions {
  readonly overrides: OverrideRecords;
  readonly audit: Audit;
  readonly clock: Clock;
}

const PATH = '/api/v1/overrides';

const units = Object.keys(unitMs) as readonly Unit[]; // it has no others

/** The longest that an override lasts. */
const MAX_MS = unitMs.YEAR;

/** Operations on what is set for single descriptors. */
export function overrideOperations(options: OverrideOptions): readonly ApiOperation[] {
  return [
    operation({
      path: PATH,
      method: 'GET',
      summary: 'limits, blocks and exemptions that are set for single descriptors',
      need: 'read',
      query: noQuery,
      answers: 'All overrides.',
      answer: async () => ({ overrides: (await options.overrides.follow()).map(shown) }),
    }),
    operation({
      path: PATH,
      method: 'PUT',
      summary: 'sets a limit, a block or an exemption for one descriptor, until a time',
      need: 'operate',
      query: noQuery,
      body: object(
        {
          domain,
          descriptor,
          effect: { type: 'string', maxLength: 10, enum: ['limit', 'block', 'exempt'] },
          requestsPerUnit: { type: 'integer', minimum: 0, maximum: MAX_HITS, description: 'of a limit' },
          unit: { type: 'string', maxLength: 10, enum: units, description: 'of a limit' },
          until: { type: 'string', maxLength: 40, description: 'RFC 3339, at most a year from now' },
          reason,
        },
        ['domain', 'descriptor', 'effect', 'until', 'reason'],
      ),
      answers: 'The override.',
      answer: async ({ client, body }) => {
        const override: StandingOverride = {
          domain: body.domain,
          entries: body.descriptor,
          effect: effectOf(body),
          untilMs: untilOf(body.until, options.clock()),
          by: client.name,
          reason: body.reason,
        };
        const before = await known(options, override);
        const change = { who: client.name, change: 'override set', reason: body.reason, what: nameOf(override) };
        await options.audit.change({ ...change, before: before && shown(before), after: shown(override) }, () =>
          options.overrides.put(override),
        );
        return shown(override);
      },
    }),
    operation({
      path: PATH,
      method: 'DELETE',
      summary: 'removes what is set for one descriptor',
      need: 'operate',
      query: noQuery,
      body: object({ domain, descriptor, reason }, ['domain', 'descriptor', 'reason']),
      answers: 'The override that is gone.',
      answer: async ({ client, body }) => {
        const name = { domain: body.domain, entries: body.descriptor };
        const before = await known(options, name);
        if (!before) throw new ApiProblem(404, 'nothing is set for the descriptor');
        const change = { who: client.name, change: 'override removed', reason: body.reason, what: nameOf(name) };
        await options.audit.change({ ...change, before: shown(before), after: null }, () =>
          options.overrides.remove(name),
        );
        return shown(before);
      },
    }),
  ];
}

type Named = Pick<StandingOverride, 'domain' | 'entries'>;

const nameOf = ({ domain: name, entries }: Named) => ({
  domain: name,
  descriptor: entries.map(({ key, value }) => `${key}=${value}`).join(','),
});

const shown = (override: StandingOverride) => ({
  ...nameOf(override),
  entries: override.entries,
  ...describeOverride(override),
});

async function known(
  options: OverrideOptions,
  { domain: name, entries }: Named,
): Promise<StandingOverride | undefined> {
  const key = descriptorKey(name, entries);
  return (await options.overrides.follow()).find((one) => descriptorKey(one.domain, one.entries) === key);
}

function effectOf(body: {
  readonly effect: string;
  readonly requestsPerUnit?: number;
  readonly unit?: string;
}): OverrideEffect {
  const { effect, requestsPerUnit } = body;
  const unit = units.find((one) => one === body.unit);
  if (effect === 'limit') {
    if (requestsPerUnit === undefined || !unit)
      throw new ApiProblem(400, 'the body is not valid: a limit needs requestsPerUnit and unit');
    return { kind: 'limit', requestsPerUnit, unit };
  }
  if (requestsPerUnit !== undefined || unit)
    throw new ApiProblem(400, 'the body is not valid: requestsPerUnit and unit go with the effect limit');
  return { kind: effect === 'block' ? 'block' : 'exempt' };
}

function untilOf(text: string, nowMs: number): number {
  const untilMs = parseTime(text);
  if (untilMs === undefined)
    throw new ApiProblem(400, `the body is not valid: until must be a time of RFC 3339, got '${text}'`);
  if (untilMs <= nowMs || untilMs > nowMs + MAX_MS)
    throw new ApiProblem(400, 'the body is not valid: until must be within a year from now');
  return untilMs;
}
