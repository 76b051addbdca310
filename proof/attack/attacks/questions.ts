import { framed } from '../../../test/helpers/h2-client.ts';
import { asLocal } from '../../../test/helpers/weir.ts';
import { range } from '../../tables/figures.ts';
import { type Attack, crowd } from '../attack.ts';
import { CallBatch } from '../calls.ts';
import { get, postTo, readPage } from '../http1.ts';
import { descriptor, entry, request } from '../messages.ts';
import { DOMAIN, defaultRules } from '../rules.ts';
import { BUDGETS } from '../verdict.ts';

/** Number of values at a level; a descriptor that matches none of them is compared with all. */
const VALUES = 2_000;
const rules = `${defaultRules}${range(VALUES)
  .map(
    (at) => `  - { key: customer, value: customer-number-${at}, rate_limit: { unit: hour, requests_per_unit: 10 } }\n`,
  )
  .join('')}`;

/** A value that is similar to many of them but equal to none. */
const misspelt = (number: number): string => `custamor-nunber-${number}x1928374650abc`;

const FIND = { ':path': '/weir.v1.Rules/Find' };
/** Maximum descriptors in a call. */
const FIND_DESCRIPTORS = 64;
const MAX_OPEN_CALLS = 50;
const PIPELINED = 60;
const UNMATCHED = '/api/v1/unmatched?count=500';

const unmatched = (from: number, count: number): Buffer =>
  framed(request(range(count).map((at) => descriptor(entry('customer', misspelt(from + at))))));

/** Requests whose answers require comparisons of texts. */
export const questions: readonly Attack[] = [
  {
    name: 'Rules/Find of 64 descriptors that match none of 2,000 values',
    rules,
    prepare: () => {
      const body = unmatched(0, FIND_DESCRIPTORS);
      const batches = range(4).map(() => new CallBatch({ body, fields: FIND }, 10));
      return (attacker) =>
        crowd(attacker, batches.length, async (which) => {
          const client = await attacker.http2();
          while (!attacker.isOver && (await batches[which]?.send(client)))
            await client.untilEnded(client.begun - MAX_OPEN_CALLS);
        });
    },
  },
  {
    name: '/api/v1/explain of 100 descriptors that match none of 2,000 values, on 20 connections',
    rules,
    prepare: () => {
      const descriptors = range(100).map((at) => ({ entries: [{ key: 'customer', value: misspelt(at) }] }));
      const body = Buffer.from(JSON.stringify({ domain: DOMAIN, descriptors }));
      return (attacker) =>
        crowd(attacker, 20, async () => {
          const question = postTo('/api/v1/explain', body, asLocal({ debugPort: attacker.ports.debug }));
          await readPage(attacker, attacker.ports.debug, question);
        });
    },
  },
  {
    name: '/api/v1/unmatched: 60 pipelined requests that are left, after 500 descriptors that match no rule',
    rules,
    leavesBytes: BUDGETS.statistics,
    prepare: () => {
      const bodies = range(10).map((at) => unmatched(at * 50, 50));
      const piece = Buffer.concat(range(PIPELINED).map(() => get(UNMATCHED, { connection: 'keep-alive' })));
      return async (attacker) => {
        const caller = await attacker.http2();
        for (const body of bodies) await new CallBatch({ body }, 1).send(caller);
        await caller.untilEnded(bodies.length);
        await crowd(attacker, 4, async () => {
          const client = await attacker.tcp(attacker.ports.debug);
          await client.send(piece);
          await attacker.sleep(100);
          client.close();
        });
      };
    },
  },
];
