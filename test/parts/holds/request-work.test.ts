import { TooCostly } from '../../../src/base/request-work.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import type { RateLimitRequest } from '../../../src/engine/decide/decide.ts';
import { createReservations } from '../../../src/parts/holds/reservations.ts';
import { createSlots } from '../../../src/parts/holds/slots.ts';
import { createKuadrantLimits } from '../../../src/parts/kuadrant/limits.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { callerOf } from '../../helpers/holds-caller.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { almostMatching, MAX_MATCH_UNITS, patternRules } from '../../helpers/patterns.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const rules = rulesFrom(`
domain: demo
descriptors:
  - key: slots
    descriptors: [{key: id, not_counted: hold, rate_limit: {algorithm: in_flight, ttl: 1m, requests_per_unit: 9}}]
  - key: hits
    descriptors:
      - key: id
        not_counted: hold
        rate_limit: {unit: minute, requests_per_unit: 9, reserve: {ttl: 1m}}
${patternRules(100)}
`);
let units: number;
beforeEach(() => {
  units = 0;
});
const onWork = (more: number): void => {
  units += more;
};

function services() {
  const ledger = ledgerOf(createMemoryBackend(fakeClock(), { maxCounters: 100 }));
  const decider = { ...deciderOf(rules), ledger, onWork };
  const reservations = createReservations(decider);
  return { slots: createSlots(decider), reservations, kuadrant: createKuadrantLimits(decider, reservations) };
}

const calls: Readonly<
  Record<string, (to: ReturnType<typeof services>, request: RateLimitRequest) => Promise<unknown>>
> = {
  acquire: ({ slots }, request) => slots.acquire(request, 0, callerOf()),
  release: ({ slots }, request) => slots.release(request, callerOf()),
  reserve: ({ reservations }, request) => reservations.reserve(request, callerOf()),
  commit: ({ reservations }, request) => reservations.commit(request, callerOf()),
  'check, for Kuadrant,': ({ kuadrant }, request) => kuadrant.check(request, callerOf()),
  'report, for Kuadrant,': ({ kuadrant }, request) => kuadrant.report(request, callerOf()),
  'reserve, for Kuadrant,': ({ kuadrant }, request) => kuadrant.reserve(request, callerOf()),
  'commit, for Kuadrant,': ({ kuadrant }, request) => kuadrant.commit(request, '', callerOf()),
};

/** @param ofSearch  the units of work to search for patterns */
const requestOf = (ofSearch: number): RateLimitRequest => ({
  domain: 'demo',
  descriptors: [
    ['slots', 'a'],
    ['hits', 'a'],
    ['path', almostMatching(ofSearch)],
  ].map(([key = '', value = '']) => ({
    entries: [{ key, value }, ...(key === 'path' ? [] : [{ key: 'id', value: '1' }])],
    requestLimit: undefined,
    hits: 1,
  })),
});

describe.each(Object.entries(calls))('%s', (_, call) => {
  test('charges the search for patterns', async () => {
    await call(services(), requestOf(100));
    expect(units).toBeGreaterThanOrEqual(100);
  });

  test('is refused before it counts anything if the search costs too much', async () => {
    const to = services();
    await expect(async () => call(to, requestOf(1_000))).rejects.toThrow(TooCostly);
    expect(units).toBeLessThanOrEqual(MAX_MATCH_UNITS);
    const empty = { ...requestOf(1), descriptors: requestOf(1).descriptors.slice(0, 2) };
    expect((await to.kuadrant.check(empty, callerOf())).verdicts).toMatchObject([
      { decision: { hitsBefore: 0 } },
      { decision: { hitsBefore: 0 } },
    ]);
  });
});
