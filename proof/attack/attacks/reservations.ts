import { framed } from '../../../test/helpers/h2-client.ts';
import { range } from '../../tables/figures.ts';
import { type Attack, crowd } from '../attack.ts';
import { CallBatch, DIGITS_PLACE, placesIn } from '../calls.ts';
import { createLimit, DOMAIN_FIELD, descriptor, entry, field, varintField } from '../messages.ts';
import { defaultRules } from '../rules.ts';
import { BUDGETS } from '../verdict.ts';

const KUADRANT = '/kuadrant.service.ratelimit.v1.RateLimitService';
const CONNECTIONS = 10;
/** Number of calls, below a connection's limit since more would only be refused. */
const BATCH_CALLS = 40;
const MAX_OPEN_CALLS = 50;

/** The default rules, and a limit with reservations. */
const rules = `${defaultRules}
  - key: tenant
    descriptors:
      - key: id
        not_counted: hold
        rate_limit: { unit: hour, requests_per_unit: 1000000000, reserve: { ttl: 60s } }
`;

/** Calls with a different number each, as fast as they are answered. */
const calls =
  (method: string, message: Buffer): Attack['prepare'] =>
  () => {
    const body = framed(message);
    const fields = { ':path': `${KUADRANT}/${method}` };
    const batches = range(CONNECTIONS).map((at) => {
      const batch = new CallBatch({ body, fields, digitsAt: placesIn(body) }, BATCH_CALLS);
      batch.startAt(at * 10_000_000);
      return batch;
    });
    return (attacker) =>
      crowd(attacker, CONNECTIONS, async (which) => {
        const client = await attacker.http2();
        while (!attacker.isOver && (await batches[which]?.send(client)))
          await client.untilEnded(client.begun - MAX_OPEN_CALLS);
      });
  };

const AMOUNT = 3;
const RESERVATION = 3;
const USED = 4;
const of = (tenant: string): readonly Buffer[] => [DOMAIN_FIELD, descriptor(entry('tenant', tenant))];
const reserve = (tenant: string): Buffer => Buffer.concat([...of(tenant), varintField(AMOUNT, 1)]);
const commit = (tenant: string, id: string): Buffer =>
  Buffer.concat([...of(tenant), field(RESERVATION, Buffer.from(id)), varintField(USED, 1)]);
const longId = DIGITS_PLACE + 'i'.repeat(1_000);

/** Reservations that are never used, and hits that were never reserved. */
export const reservations: readonly Attack[] = [
  {
    name: 'Reserve on one counter, never committed',
    leavesBytes: BUDGETS.counters,
    rules,
    prepare: calls('Reserve', reserve('one')),
  },
  {
    name: 'Reserve on distinct counters',
    leavesBytes: BUDGETS.counters + BUDGETS.statistics,
    rules,
    prepare: calls('Reserve', reserve(DIGITS_PLACE)),
  },
  {
    name: 'Commit of reservations that are not there, with distinct ids of 1,000 characters',
    leavesBytes: BUDGETS.counters,
    rules,
    prepare: calls('Commit', commit('one', longId)),
  },
  {
    name: 'Report with distinct limits that callers bring, under long names',
    leavesBytes: BUDGETS.counters + BUDGETS.statistics,
    rules,
    prepare: calls(
      'Report',
      Buffer.concat([DOMAIN_FIELD, descriptor(entry('user', longId), createLimit(1_000_000, 3))]),
    ),
  },
  {
    name: 'CheckRateLimit of 100 descriptors',
    rules,
    prepare: calls(
      'CheckRateLimit',
      Buffer.concat([DOMAIN_FIELD, ...range(100).map(() => descriptor(entry('user', DIGITS_PLACE)))]),
    ),
  },
];
