import { RequestWork } from '../../../src/base/request-work.ts';
import { createBatch } from '../../../src/edge/rls/batch.ts';
import { type Caller, type CallOutcome, createRlsService } from '../../../src/edge/rls/service.ts';
import type { WireRequest } from '../../../src/edge/wire/wire.ts';
import { status } from '../../../src/h2/grpc/grpc-status.ts';
import { callerWith } from '../../helpers/caller.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { extrasOf } from '../../helpers/extras.ts';
import { crossedRules, crossing } from '../../helpers/patterns.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const rules = rulesFrom(`
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 9}}
  - {key: logged, rate_limit: {algorithm: sliding_window_log, unit: hour, requests_per_unit: 1000}}
${crossedRules}
`);

const requestOf = (...entries: readonly (readonly [key: string, value: string])[]): WireRequest => ({
  domain: 'demo',
  hits_addend: 1,
  descriptors: entries.map(([key, value]) => ({
    entries: [{ key, value }],
    limit: null,
    hits_addend: null,
    is_negative_hits: false,
  })),
});
const hostile = ['path', crossing(36)] as const; // about 720 units of work
const service = () =>
  createRlsService(deciderOf(rules), extrasOf(), {
    answered: () => {},
    failed: () => {},
  });

async function answerOf(to: ReturnType<typeof service>, request: WireRequest, caller: Caller = callerWith()) {
  return new Promise<CallOutcome>((resolve) => void to.shouldRateLimit(request, caller, resolve));
}
const remainingOf = (outcome: CallOutcome) =>
  'response' in outcome ? outcome.response.statuses.map(({ limit_remaining }) => limit_remaining) : outcome.error;

test('a request whose values are too long for the patterns is RESOURCE_EXHAUSTED, and counts nothing', async () => {
  const to = service();
  expect(remainingOf(await answerOf(to, requestOf(['user', 'a'], hostile)))).toEqual({
    code: status.RESOURCE_EXHAUSTED,
    details: 'the values of the request are too long for the number of patterns in the rules',
  });
  expect(remainingOf(await answerOf(to, requestOf(['user', 'a'])))).toEqual([8]);
});

test('a request with too many long counters is RESOURCE_EXHAUSTED, and counts nothing', async () => {
  const to = service();
  const logs = Array.from({ length: 250 }, (_, at) => ['logged', `${at}`] as const);
  expect(remainingOf(await answerOf(to, requestOf(['user', 'a'], ...logs)))).toEqual({
    code: status.RESOURCE_EXHAUSTED,
    details: 'the request names too many counters with a long state',
  });
  expect(remainingOf(await answerOf(to, requestOf(['user', 'a'], ...logs.slice(0, 40))))).toEqual([
    8,
    ...Array(40).fill(999),
  ]);
});

test('the work of a call includes patterns and long states', async () => {
  const work = new RequestWork();
  const caller = { ...callerWith(), work };
  await answerOf(service(), requestOf(['user', 'a']), caller);
  expect(work.units).toBe(0);
  await answerOf(service(), requestOf(['path', crossing(5)]), caller);
  expect(work.units).toBeGreaterThan(15);
  const before = work.units;
  await answerOf(service(), requestOf(...Array.from({ length: 100 }, () => ['logged', 'a'] as const)), caller);
  expect(work.units - before).toBeGreaterThan(100);
});

test('the requests of a batch share the work that a request may cause', async () => {
  const work = new RequestWork();
  const costly = requestOf(['path', crossing(10)]); // about 200 units
  const decideBatch = createBatch(service());
  const outcome = await new Promise<Parameters<Parameters<typeof decideBatch>[2]>[0]>((resolve) =>
    decideBatch({ requests: Array.from({ length: 100 }, () => costly) }, { ...callerWith(), work }, resolve),
  );
  const answers = 'response' in outcome ? outcome.response.answers : [];
  const refused = answers.filter((answer) => 'status' in answer && answer.status.code === status.RESOURCE_EXHAUSTED);
  expect(answers.length - refused.length).toBe(2);
  expect(work.units).toBeLessThanOrEqual(512);
});
