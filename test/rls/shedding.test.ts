import { status } from '@grpc/grpc-js';
import type { Outcome, RlsService } from '../../src/rls/service.ts';
import { createSheddingService } from '../../src/rls/shedding.ts';
import { callerWith } from '../helpers/caller.ts';
import { OK } from '../helpers/grpc-server.ts';
import { question } from '../helpers/h2-client.ts';

/** A service whose calls stay under way until they are let go. */
function holding() {
  const held: (() => void)[] = [];
  const service: RlsService = {
    async shouldRateLimit(_request, _caller, reply) {
      held.push(() => reply({ response: OK }));
    },
  };
  return { service, letGo: () => held.shift()?.() };
}

function asked(service: RlsService): Outcome[] {
  const outcomes: Outcome[] = [];
  service.shouldRateLimit(question, callerWith(), (outcome) => outcomes.push(outcome));
  return outcomes;
}

const refusal = {
  error: { code: status.RESOURCE_EXHAUSTED, details: 'the service has more to do than it can: try again' },
};

test('calls beyond the most at a time are refused at once, until one of those has been answered', () => {
  const { service, letGo } = holding();
  let shed = 0;
  const shedding = createSheddingService(service, { maxUnderWay: 2, isBehind: () => false, onShed: () => shed++ });
  const first = asked(shedding);
  asked(shedding);
  expect(asked(shedding)).toEqual([refusal]);
  expect(shed).toBe(1);
  letGo();
  expect(first).toEqual([{ response: OK }]);
  expect(asked(shedding)).toEqual([]); // it is under way
  expect(asked(shedding)).toEqual([refusal]);
  expect(shed).toBe(2);
});

test('while the process is behind all are refused, and none of them is under way', () => {
  const { service, letGo } = holding();
  let isBehind = true;
  const shedding = createSheddingService(service, { maxUnderWay: 1, isBehind: () => isBehind, onShed: () => {} });
  expect(asked(shedding)).toEqual([refusal]);
  isBehind = false;
  const last = asked(shedding);
  letGo();
  expect(last).toEqual([{ response: OK }]);
});
