import { ErrorCode } from '../../../src/h2/http2/errors.ts';
import { framed, rstStream } from '../../../test/helpers/h2-client.ts';
import { range } from '../../tables/figures.ts';
import { type Attack, crowd } from '../attack.ts';
import { CallBatch, type CallShape, DIGITS_PLACE, placesIn } from '../calls.ts';
import { DOMAIN_FIELD, descriptor, entry, field, varintField } from '../messages.ts';
import { defaultRules } from '../rules.ts';
import { BUDGETS } from '../verdict.ts';

/** The default rules, and fewer slots than the attacker requests. */
const rules = `${defaultRules}
  - key: tenant
    descriptors:
      - key: id
        not_counted: hold
        rate_limit: { algorithm: in_flight, requests_per_unit: 2, ttl: 30s }
`;

const MAX_DELAY_S = 3_600;
const hits = field(3, varintField(1, 9));
/** A call with 64 counters of its own that waits for the maximum time. */
const body = framed(
  Buffer.concat([
    field(
      1,
      Buffer.concat([
        DOMAIN_FIELD,
        ...range(64).map((at) => descriptor(entry('tenant', `${at}-${DIGITS_PLACE}`), entry('id', 'x'), hits)),
      ]),
    ),
    field(2, varintField(1, MAX_DELAY_S)),
  ]),
);
const shape: CallShape = { body, fields: { ':path': '/weir.v1.Holds/Acquire' }, digitsAt: placesIn(body) };
/** Below a connection's limit of open calls. */
const MAX_OPEN_CALLS = 95;
/** As many as fit into the window of a new connection. */
const BATCH_CALLS = 8;

/** Calls that wait for slots. */
export const slots: readonly Attack[] = [
  {
    name: 'Acquire of 64 slots each, cancelled in the same write',
    leavesBytes: BUDGETS.counters + BUDGETS.statistics,
    rules,
    prepare: () => {
      const batch = new CallBatch({ ...shape, after: [rstStream(0, ErrorCode.CANCEL)] }, BATCH_CALLS);
      return (attacker) =>
        crowd(attacker, 1, async () => {
          const client = await attacker.http2();
          while (!attacker.isOver && (await batch.send(client))) await attacker.sleep(10);
        });
    },
  },
  {
    name: 'Acquire of 64 slots each, 95 calls that wait on each of 14 connections',
    leavesBytes: BUDGETS.counters + BUDGETS.statistics,
    rules,
    prepare: () => {
      const batches = range(14).map((at) => {
        const batch = new CallBatch(shape, BATCH_CALLS);
        batch.startAt(at * 1_000_000);
        return batch;
      });
      return (attacker) =>
        crowd(attacker, batches.length, async (which) => {
          const client = await attacker.http2();
          while (client.begun < MAX_OPEN_CALLS && !attacker.isOver && (await batches[which]?.send(client)));
          await Promise.race([client.tcp.closed, attacker.over]);
        });
    },
  },
];
