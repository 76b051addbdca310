import { status } from '@grpc/grpc-js';
import type { Outcome, RlsService } from '../../src/rls/service.ts';
import { createShedding, type Shedding } from '../../src/rls/shedding.ts';
import { callerWith } from '../helpers/caller.ts';
import { OK } from '../helpers/grpc-server.ts';
import { question } from '../helpers/h2-client.ts';

const refusal = { code: status.RESOURCE_EXHAUSTED, details: 'the service has more to do than it can: try again' };

/** A service whose calls stay under way until they are let go. */
function holding(shedding: Shedding) {
  const held: (() => void)[] = [];
  const service: RlsService = {
    async shouldRateLimit(_request, _caller, reply) {
      held.push(() => reply({ response: OK }));
    },
  };
  const counting = shedding.counting(service);
  return {
    ask(times: number): readonly Outcome[] {
      const outcomes: Outcome[] = [];
      for (let time = 0; time < times; time++)
        counting.shouldRateLimit(question, callerWith(), (outcome) => outcomes.push(outcome));
      return outcomes;
    },
    letGo: () => held.shift()?.(),
  };
}

test('calls beyond the most at a time are refused, until one of those has been answered', () => {
  let shed = 0;
  const shedding = createShedding({ maxUnderWay: 2, share: () => 1, onShed: () => shed++ });
  const { ask, letGo } = holding(shedding);
  expect(shedding.refusal()).toBeUndefined();
  const outcomes = ask(2);
  expect(shedding.refusal()).toEqual(refusal);
  expect(shed).toBe(1);
  letGo();
  expect(outcomes).toEqual([{ response: OK }]);
  expect(shedding.refusal()).toBeUndefined();
  expect(shed).toBe(1);
});

test('while a share alone can be answered in time, that share is taken', () => {
  let share = 0.25;
  const shedding = createShedding({ maxUnderWay: 1_000, share: () => share, onShed: () => {} });
  holding(shedding).ask(100);
  const taken = () => Array.from({ length: 400 }, () => shedding.refusal()).filter((why) => why === undefined).length;
  expect(taken()).toBe(100);
  share = 0.01;
  expect(taken()).toBe(4);
  share = 1;
  expect(taken()).toBe(400);
});

test('a hundred calls at a time are never too many', () => {
  const shedding = createShedding({ maxUnderWay: 1_000, share: () => 0, onShed: () => {} });
  const { ask, letGo } = holding(shedding);
  ask(99);
  expect(shedding.refusal()).toBeUndefined();
  ask(1);
  expect(shedding.refusal()).toEqual(refusal);
  letGo();
  expect(shedding.refusal()).toBeUndefined();
});
