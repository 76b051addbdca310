import { createShedding, type Shedding } from '../../src/overload/shedding.ts';
import type { CallOutcome, RlsService } from '../../src/rls/service.ts';
import { callerWith } from '../helpers/caller.ts';
import { OK } from '../helpers/grpc-server.ts';
import { question } from '../helpers/h2-client.ts';

/** A service whose calls stay in flight until the test releases them. */
function holding(shedding: Shedding) {
  const held: (() => void)[] = [];
  const service: RlsService = {
    async shouldRateLimit(_request, _caller, reply) {
      held.push(() => reply({ response: OK }));
    },
  };
  const counting = shedding.counting(service);
  return {
    ask(times: number): readonly CallOutcome[] {
      const outcomes: CallOutcome[] = [];
      for (let time = 0; time < times; time++)
        counting.shouldRateLimit(question, callerWith(), (outcome) => outcomes.push(outcome));
      return outcomes;
    },
    letGo: () => held.shift()?.(),
  };
}

const options = { maxInFlight: 1_000, share: () => 1, waiting: () => 0 };

test('calls beyond the limit of calls in flight are shed until one of them is answered', () => {
  const shedding = createShedding({ ...options, maxInFlight: 2 });
  const { ask, letGo } = holding(shedding);
  expect(shedding.mustShed()).toBe(false);
  const outcomes = ask(2);
  expect(shedding.mustShed()).toBe(true);
  letGo();
  expect(outcomes).toEqual([{ response: OK }]);
  expect(shedding.mustShed()).toBe(false);
});

test('calls that wait to be decoded count as in flight', () => {
  let waiting = 1;
  const shedding = createShedding({ ...options, maxInFlight: 2, waiting: () => waiting });
  holding(shedding).ask(1);
  expect(shedding.mustShed()).toBe(true);
  waiting = 0;
  expect(shedding.mustShed()).toBe(false);
});

test('the share of calls that can be answered in time is admitted', () => {
  let share = 0.25;
  const shedding = createShedding({ ...options, share: () => share });
  holding(shedding).ask(100);
  const admitted = () => Array.from({ length: 400 }, () => shedding.mustShed()).filter((must) => !must).length;
  expect(admitted()).toBe(100);
  share = 0.01;
  expect(admitted()).toBe(4);
  share = 1;
  expect(admitted()).toBe(400);
});

test('no call is shed while fewer than a hundred calls are in flight', () => {
  const shedding = createShedding({ ...options, share: () => 0 });
  const { ask, letGo } = holding(shedding);
  ask(99);
  expect(shedding.mustShed()).toBe(false);
  ask(1);
  expect(shedding.mustShed()).toBe(true);
  letGo();
  expect(shedding.mustShed()).toBe(false);
});
