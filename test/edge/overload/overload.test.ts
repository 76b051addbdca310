import { status } from '@grpc/grpc-js';
import { type Overload, openOverload } from '../../../src/edge/overload/overload.ts';
import type { CallOutcome } from '../../../src/edge/rls/service.ts';
import { callerWith } from '../../helpers/caller.ts';

let missed: string[];
let overload: Overload;
const open = (maxInFlight: number): void => {
  missed = [];
  overload = openOverload({
    ...{
      maxInFlight,
      memoryBytes: undefined,
      countLate: () => {},
      answerKnown: () => undefined,
      onMissed: (by) => void missed.push(by),
    },
  });
};
afterEach(() => overload.close());

test('refuses calls only beyond the number of calls in flight', async () => {
  open(2);
  const replies: ((outcome: CallOutcome) => void)[] = [];
  const service = overload.counting({
    async shouldRateLimit(_request, _caller, reply) {
      replies.push(reply);
    },
  });
  const ask = () => {
    const request = { domain: '', descriptors: [], hits_addend: 0 };
    void service.shouldRateLimit(request, callerWith(), () => {});
  };
  for (let call = 0; call < 2; call++) {
    expect(overload.refusal()).toBeUndefined();
    ask();
  }
  expect(overload.refusal()).toMatchObject({ code: status.RESOURCE_EXHAUSTED });
  expect([overload.inFlight(), missed]).toEqual([2, ['in_flight']]);
  replies[0]?.({ error: { code: status.INTERNAL, details: '' } });
  expect(overload.refusal()).toBeUndefined();
});
