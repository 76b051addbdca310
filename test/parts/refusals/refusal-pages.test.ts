import '../../helpers/realm.ts';
import fc from 'fast-check';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { type Answer, decide } from '../../../src/engine/decide/decide.ts';
import { createStatistics } from '../../../src/operate/observe/stats.ts';
import type { SampledRefusal } from '../../../src/parts/refusals/answers.ts';
import { refusalOperations } from '../../../src/parts/refusals/operations.ts';
import { RefusalSample, refusalPage } from '../../../src/parts/refusals/refusals.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { overridesFor } from '../../helpers/overrides.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { wholeScope } from '../../helpers/scope.ts';

const refused: Answer = { overallCode: 'OVER_LIMIT', verdicts: [], shadowed: false, delayMs: 0 };

const domainsOf = (refusals: readonly SampledRefusal[]) => refusals.map(({ domain }) => domain);

test('consecutive pages have every refusal exactly once, even if many share a millisecond', () => {
  const step = fc.record({ process: fc.nat(2), count: fc.nat(6), advanceMs: fc.integer({ min: -2, max: 2 }) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 10 }), fc.integer({ min: 1, max: 4 }), (steps, count) => {
      const clock = fakeClock();
      const processes = Array.from({ length: 3 }, () => new RefusalSample(1_000, clock));
      const reports = () => processes.map((one) => one.report());
      const isChosen = ({ domain }: SampledRefusal): boolean => !domain.endsWith('3');
      const sent: string[] = [];
      const read: string[] = [];
      let since = refusalPage(reports(), { since: undefined, count, isChosen }).next;
      for (const { process, count: refusals, advanceMs } of steps) {
        for (let one = 0; one < refusals; one++) {
          const domain = `d${sent.length}`;
          sent.push(domain);
          processes[process]?.answered(domain, [], refused);
        }
        clock.advance(advanceMs);
        for (let more = 1; more > 0; ) {
          const page = refusalPage(reports(), { since, count, isChosen });
          expect(page.refusals.length).toBeLessThanOrEqual(count);
          read.push(...domainsOf(page.refusals.toReversed()));
          ({ next: since, more } = page);
        }
      }
      const expected = sent.filter((domain) => !domain.endsWith('3'));
      expect(read.toSorted()).toEqual(expected.toSorted());
    }),
  );
});

test('a refusal names the counters that refuse, also that of an override and that of a requirement', async () => {
  const rules = rulesFrom(`
domain: demo
require: { keys: [customer], limit: { unit: minute, requests_per_unit: 0 } }
descriptors:
  - { key: path, value: /login*, share_threshold: true, rate_limit: { unit: hour, requests_per_unit: 9 } }
`);
  const entries = [{ key: 'path', value: '/login/1' }];
  const [decider, sample] = [
    deciderOf(rules, { overrides: overridesFor('demo', entries) }),
    new RefusalSample(9, fakeClock()),
  ];
  for (let request = 0; request < 2; request++) {
    const descriptors = [{ entries, hits: 1, requestLimit: undefined }];
    sample.answered('demo', descriptors, await decide({ domain: 'demo', descriptors }, decider, 1_000));
  }
  const shown = sample
    .report()
    .refusals.map(({ descriptors }) =>
      descriptors.map(({ entries: [first], code, limit }) => `${first?.key}=${first?.value}: ${code}, ${limit}`),
    );
  const required = 'missing=customer: OVER_LIMIT, 0 per minute';
  expect(shown.map((lines) => lines.toSorted())).toEqual([
    [required, 'path=/login/1: OK, 1 per minute'],
    [required, 'path=/login/1: OVER_LIMIT, 1 per minute'],
  ]);
});

test('refusals that were replaced before they were read are counted as lost', () => {
  const sample = new RefusalSample(3, fakeClock());
  const pageFrom = (since: string | undefined) =>
    refusalPage([sample.report()], { since, count: 10, isChosen: () => true });
  sample.answered('a', [], refused);
  const { next } = pageFrom(undefined);
  for (const domain of ['b', 'c', 'd', 'e', 'f']) sample.answered(domain, [], refused);
  const page = pageFrom(next);
  expect(domainsOf(page.refusals)).toEqual(['f', 'e', 'd']);
  expect(page).toMatchObject({ lost: 2, more: 0 });
  expect(pageFrom(page.next)).toMatchObject({ refusals: [], lost: 0, more: 0 });
});

test('a process that starts later is read from its first refusal', () => {
  const clock = fakeClock();
  const [first, second] = [new RefusalSample(3, clock), new RefusalSample(3, clock)];
  const query = { count: 1, isChosen: () => true };
  const { next } = refusalPage([first.report()], { ...query, since: undefined });
  second.answered('new', [], refused);
  const page = refusalPage([first.report(), second.report()], { ...query, since: next });
  expect(domainsOf(page.refusals)).toEqual(['new']);
  expect(() => refusalPage([first.report()], { ...query, since: 'x' })).toThrow('since must be the `next`');
});

test('without `since`, a page has the newest refusals and the number of older ones', () => {
  const clock = fakeClock();
  const sample = new RefusalSample(10, clock);
  for (const domain of ['a', 'b', 'c']) {
    sample.answered(domain, [], refused);
    clock.advance(1);
  }
  const page = refusalPage([sample.report()], { since: undefined, count: 2, isChosen: () => true });
  expect(domainsOf(page.refusals)).toEqual(['c', 'b']);
  expect(page).toMatchObject({ more: 1, lost: 0 });
});

test('a process that misses pages is read from its previous position, and its dropped refusals are counted once', () => {
  const clock = fakeClock();
  const [first, second] = [new RefusalSample(10, clock), new RefusalSample(200, clock)];
  const page = (answering: readonly RefusalSample[], since: string | undefined) =>
    refusalPage(
      answering.map((one) => one.report()),
      { since, count: 200, isChosen: () => true },
    );
  for (let refusal = 0; refusal < 103; refusal++) second.answered('old', [], refused);
  first.answered('a', [], refused);
  let { next, droppedSince } = page([first, second], undefined);
  expect(droppedSince).toBeUndefined();
  for (let missed = 0; missed < 2; missed++) {
    const found = page([first], next);
    expect(found).toMatchObject({ refusals: [], lost: 0, droppedSince: 0 });
    ({ next } = found);
  }
  second.answered('dropped', [], refused);
  second.nextSecond();
  second.answered('new', [], refused);
  const found = page([first, second], next);
  expect(domainsOf(found.refusals)).toEqual(['new']);
  expect(found).toMatchObject({ lost: 0, dropped: 4, droppedSince: 1 });
  expect(page([first, second], found.next)).toMatchObject({ refusals: [], droppedSince: 0 });
});

test('a cursor does not grow with the number of ended processes', () => {
  const clock = fakeClock();
  let since: string | undefined;
  const stays = new RefusalSample(3, clock);
  for (let restart = 0; restart < 100; restart++) {
    const reports = [stays, new RefusalSample(3, clock)].map((one) => one.report());
    since = refusalPage(reports, { since, count: 1, isChosen: () => true }).next;
  }
  expect(since?.split(',').length).toBeLessThan(50);
});

test('refusals and use of an adaptive limit are shown with the slots that it had, or that the priority may use', async () => {
  const rules = rulesFrom(`
domain: demo
descriptors:
  - key: service
    descriptors:
      - key: priority
        not_counted: priority
        descriptors:
          - {key: id, not_counted: hold, rate_limit: {algorithm: in_flight, ttl: 30s, adapt: {min: 4, max: 200}}}
`);
  const clock = fakeClock();
  const decider = deciderOf(rules, { ledger: ledgerOf(createMemoryBackend(clock, { maxCounters: 10 })), clock });
  const [sample, statistics] = [new RefusalSample(10, clock), createStatistics(0.8)];
  const ask = async (priority: string, id: number) => {
    const entries = Object.entries({ service: 'a', priority, id: String(id) }).map(([key, value]) => ({ key, value }));
    const descriptors = [{ entries, requestLimit: undefined, hits: 1 }];
    const answer = await decide({ domain: 'demo', descriptors }, decider, clock());
    sample.answered('demo', descriptors, answer);
    statistics.answered('demo', answer);
  };
  for (let id = 0; id < 4; id++) await ask(id < 2 ? 'sheddable' : 'critical', id);
  await ask('sheddable', 4);
  await ask('critical', 5);
  const arithmetics = sample.report().refusals.map(({ descriptors: [one] }) => one?.arithmetic);
  expect(arithmetics).toEqual(['4 + 1 = 5 > 2', '4 + 1 = 5 > 4']);
  const [counts] = [...statistics.rules()];
  expect(counts).toMatchObject({ overLimit: 2, share: { value: 1 } });
});

test('without an answer of a process, refusals are asked for again, and EXPLAIN_SAMPLE is named only if it is not set', async () => {
  const statusWith = async (refusals: number): Promise<string> => {
    const settings = { agent: { refusals } };
    const { operations } = refusalOperations({ settings, ask: async () => [], hash: undefined } as never); // what it reads
    const answer = Promise.resolve(operations[0]?.answer({ query: {}, scope: wholeScope } as never));
    return answer.then(
      () => 'answered',
      ({ status, message }: { readonly status: number; readonly message: string }) => `${status} ${message}`,
    );
  };
  expect(await statusWith(100)).toBe('503 no process that answers requests has replied: ask again');
  expect(await statusWith(0)).toBe('404 no refusals are kept: set EXPLAIN_SAMPLE');
});

test('the id of a refused request is found in any order of its entries', async () => {
  const rules = rulesFrom(`
domain: demo
match: any_order
descriptors:
  - key: user
    descriptors: [{ key: trace, not_counted: trace, rate_limit: { unit: day, requests_per_unit: 0 } }]
`);
  const entries = [
    { key: 'trace', value: 'id 1' },
    { key: 'user', value: 'anna' },
  ];
  const descriptors = [{ entries, hits: 1, requestLimit: undefined }];
  const sample = new RefusalSample(3, fakeClock());
  sample.answered('demo', descriptors, await decide({ domain: 'demo', descriptors }, deciderOf(rules), 1_000));
  expect(sample.report().refusals).toMatchObject([
    { requestId: 'id 1', descriptors: [{ entries: [{ key: 'user', value: 'anna' }] }] },
  ]);
});
