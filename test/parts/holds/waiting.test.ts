import '../../helpers/realm.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ServiceDecider } from '../../../src/edge/grpc/side-service.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { holdsService } from '../../../src/parts/holds/methods.ts';
import { hostHolds } from '../../../src/parts/holds/offer.ts';
import { CallerGone } from '../../../src/parts/holds/queues.ts';
import { createReservations } from '../../../src/parts/holds/reservations.ts';
import { createHoldsService, type HoldsService } from '../../../src/parts/holds/service.ts';
import { createSlots } from '../../../src/parts/holds/slots.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { type Gate, gate } from '../../helpers/gate.ts';
import { startServer } from '../../helpers/grpc-server.ts';
import { callHead, data, framed, openRaw, rstStream } from '../../helpers/h2-client.ts';
import { callerOf } from '../../helpers/holds-caller.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { mostStepsInATurn } from '../../helpers/turns.ts';
import { eventually } from '../../helpers/until.ts';

const rules = rulesFrom(`
domain: demo
descriptors:
  - key: queue
    descriptors:
      - {key: job, not_counted: hold, rate_limit: {algorithm: in_flight, requests_per_unit: 1, ttl: 30s}}
`);

const LONG_MS = 60_000; // longer than the test
const CANCEL = 8;
const never = () => {};

const requestOf = (queues: readonly string[], job: string, hits = 1) => ({
  domain: 'demo',
  descriptors: queues.map((value) => ({
    entries: [
      { key: 'queue', value },
      { key: 'job', value: job },
    ],
    requestLimit: undefined,
    hits,
  })),
});
/** More hits than the limit permits. */
const TOO_MANY_HITS = 9;

/** Counts queried counters; each query waits for the gate, if there is one. */
function countingDecider() {
  const ledger = ledgerOf(createMemoryBackend(Date.now, { maxCounters: 100_000 }));
  const asked = { counters: 0, step: never, gate: undefined as Gate | undefined };
  const decider: ServiceDecider = {
    ...deciderOf(rules, { clock: Date.now }),
    storeBudget: () => 5_000,
    ledger: {
      async debit(debits, how) {
        asked.counters += debits.length;
        for (const _ of debits) asked.step();
        await asked.gate?.passed;
        return ledger.debit(debits, how);
      },
      refund: (receipt) => ledger.refund(receipt),
      atomic: 'request',
    },
  };
  return { decider, asked };
}

describe('a caller that is gone', () => {
  test('before its slots are queried: they are not', async () => {
    const { decider, asked } = countingDecider();
    const slots = createSlots(decider);
    await expect(
      slots.acquire(
        requestOf(['a'], '1'),
        LONG_MS,
        callerOf((listener) => listener()),
      ),
    ).rejects.toThrow(CallerGone);
    expect(asked.counters).toBe(0);
  });

  test.each<[string, number, boolean]>([
    ['and would get them: they expire, since its id may have held them before', 1, false],
    ['and would wait for them: it does not', TOO_MANY_HITS, true],
  ])('while its slots are queried %s', async (_, hits, isFree) => {
    const { decider, asked } = countingDecider();
    const slots = createSlots(decider);
    asked.gate = gate();
    let leave = never;
    const leaving = callerOf((listener) => {
      leave = listener;
    });
    const gone = slots.acquire(requestOf(['a'], '1', hits), LONG_MS, leaving);
    await eventually(() => asked.counters > 0);
    leave();
    asked.gate.open();
    await expect(gone).rejects.toThrow(CallerGone);
    expect(await slots.acquire(requestOf(['a'], '2'), 0, callerOf())).toMatchObject({ held: isFree });
    const { counters } = asked;
    await sleep(200); // four times the poll interval of a waiting caller
    expect(asked.counters).toBe(counters);
  });
});

describe('over gRPC', () => {
  const CALLS = 50;
  const outcomes: unknown[] = [];
  let asked: ReturnType<typeof countingDecider>['asked'];
  let begun: number;
  let holds: HoldsService;
  beforeEach(() => {
    const counting = countingDecider();
    asked = counting.asked;
    outcomes.length = 0;
    begun = 0;
    const service = createHoldsService(createSlots(counting.decider), createReservations(counting.decider));
    holds = {
      ...service,
      async acquire(request, caller) {
        begun++;
        const outcome = await service.acquire(request, caller);
        outcomes.push(outcome);
        return outcome;
      },
    };
  });

  test.each([
    ['in the same write', ''],
    ['by its deadline', '20m'],
  ])('calls that end %s stop waiting, and leave no queries behind', async (how, timeout) => {
    const server = await startServer({ others: [hostHolds(async () => holds)] });
    const client = await openRaw(Number(server.target.split(':').at(-1)));
    const acquire = holdsService.Acquire as unknown as { requestSerialize(request: object): Buffer };
    const message = (job: string): Buffer => {
      const [one] = requestOf(['a'], job).descriptors;
      const descriptors = [{ ...one, limit: null, hits_addend: { value: TOO_MANY_HITS }, is_negative_hits: false }];
      return framed(
        acquire.requestSerialize({
          request: { domain: 'demo', descriptors, hits_addend: 0 },
          max_delay: { seconds: 3_600, nanos: 0 },
        }),
      );
    };
    const fields = { ':path': '/weir.v1.Holds/Acquire', 'grpc-timeout': timeout };
    const one = (id: number): Buffer =>
      Buffer.concat([
        callHead(id, fields),
        data(id, message(String(id)), true),
        ...(how === 'by its deadline' ? [] : [rstStream(id, CANCEL)]),
      ]);
    client.send(callHead(1, { ...fields, 'grpc-timeout': '' }), data(1, framed(Buffer.alloc(0)), true)); // loads it
    await client.reply(1);
    for (let at = 1; at <= CALLS; at++) client.send(one(1 + 2 * at));
    await client.settled();
    await eventually(() => outcomes.length === begun);
    let counters = -1;
    await eventually(async () => {
      counters = asked.counters;
      await sleep(200); // four times the poll interval of a waiting caller
      return asked.counters === counters;
    }); // a transport may begin calls later
    await eventually(() => outcomes.length === begun);
    client.close();
    await server.close(0);
  });
});

describe('callers that wait for many counters', () => {
  const CALLERS = 100;
  const COUNTERS = 32;
  /** The most counters that waiting callers query in a period. */
  const COUNTERS_A_PERIOD = 256;
  /** The most queries in a turn in which a period ends, plus one try. */
  const MOST = 2 * COUNTERS_A_PERIOD + COUNTERS;
  const queuesOf = (caller: number) => Array.from({ length: COUNTERS }, (_, at) => `${caller}-${at}`);

  test.each<[string, number]>([
    ['while they wait', LONG_MS],
    ['when their time is over', 20],
  ])('query a bounded number of them per turn of the event loop, %s', async (_, maxDelayMs) => {
    const { decider, asked } = countingDecider();
    const slots = createSlots(decider);
    const leaves: (() => void)[] = [];
    const waiting: Promise<unknown>[] = [];
    for (let caller = 0; caller < CALLERS; caller++) {
      const request = requestOf(queuesOf(caller), 'x', TOO_MANY_HITS);
      waiting.push(
        slots
          .acquire(
            request,
            maxDelayMs,
            callerOf((listener) => leaves.push(listener)),
          )
          .catch(never),
      );
    }
    await sleep(0); // the first try of each runs in the caller's own turn
    const first = CALLERS * COUNTERS;
    const early = asked.counters - first; // on a busy machine, some have waited for long enough
    expect(early).toBeGreaterThanOrEqual(0);
    expect(early).toBeLessThanOrEqual(MOST);
    const most = await mostStepsInATurn(async (step) => {
      asked.step = step;
      await eventually(() => asked.counters >= 2 * first);
    });
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(MOST);
    for (const leave of leaves) leave();
    await Promise.all(waiting);
  });

  test('get free slots at once, before those that only poll', async () => {
    const { decider, asked } = countingDecider();
    const slots = createSlots(decider);
    const leaves: (() => void)[] = [];
    const waiting = Array.from({ length: CALLERS }, (_, caller) =>
      slots
        .acquire(
          requestOf(queuesOf(caller), 'x', TOO_MANY_HITS),
          LONG_MS,
          callerOf((listener) => leaves.push(listener)),
        )
        .catch(never),
    );
    await slots.acquire(requestOf(['a'], '1'), 0, callerOf());
    const next = slots.acquire(requestOf(['a'], '2'), LONG_MS, callerOf());
    await eventually(() => asked.counters > CALLERS * COUNTERS + 2 * COUNTERS_A_PERIOD); // they poll
    const { counters } = asked;
    await slots.release(requestOf(['a'], '1'), callerOf());
    expect(await next).toMatchObject({ held: true });
    expect(asked.counters - counters).toBeLessThan(3 * MOST);
    for (const leave of leaves) leave();
    await Promise.all(waiting);
  });
});
