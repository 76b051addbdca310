import { describeLimit, ruleAsJson } from '../../engine/rules/match/describe.ts';
import type { RuleDiff } from './diff.ts';
import type { CounterFate } from './places.ts';

const fateJson = ({ limit, isKept }: CounterFate) => ({
  limit: describeLimit(limit),
  counters: isKept ? 'kept' : 'new',
});

/** The comparison as JSON. */
export const diffJson = ({ added, removed, changed, rerouted, domains, spends }: RuleDiff): object => ({
  added: added.map(({ rule, before, counters }) => ({
    rule: ruleAsJson(rule),
    ...(before && { before: before.path }),
    counters: counters.map(fateJson),
  })),
  removed: removed.map(({ rule, after }) => ({ rule: ruleAsJson(rule), ...(after && { after: after.path }) })),
  changed: changed.map(({ before, after, counters }) => ({
    before: ruleAsJson(before),
    after: ruleAsJson(after),
    counters: counters.map(fateJson),
  })),
  ...{ rerouted, domains },
  spends: Object.fromEntries(spends),
});
