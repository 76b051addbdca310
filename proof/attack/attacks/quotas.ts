import { framed, rstStream } from '../../../test/helpers/h2-client.ts';
import { range } from '../../tables/figures.ts';
import { type Attack, type Attacker, crowd } from '../attack.ts';
import { CallBatch, digits } from '../calls.ts';
import type { Http2Client } from '../http2-client.ts';
import { DOMAIN_FIELD, entry, field, repeated, usage } from '../messages.ts';
import { BUDGETS } from '../verdict.ts';

const RLQS = { ':path': '/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas' };
const env = { RLQS: 'true' };
/** Maximum length of a text in a bucket id. */
const LONG_TEXT = 1_024;
const LONG_PAIRS = 16;
const CANCEL = 8;
/** A field of a report that no code reads. */
const UNKNOWN_FIELD = 15;
/** The tag of a usage in a report. */
const USAGE_TAG = (2 << 3) | 2;

/** A proxy's report on its buckets, framed for gRPC. */
const createReport = (usages: readonly Buffer[]): Buffer => framed(Buffer.concat([DOMAIN_FIELD, ...usages]));

/** A report on buckets of the rule for users, numbered from `from`. */
const users = (from: number, count: number): Buffer =>
  createReport(range(count).map((at) => usage(entry('user', digits(from + at)))));

/** A bucket with an id of maximum length. */
const longUsage = (number: number): Buffer =>
  usage(
    ...range(LONG_PAIRS).map((at) => {
      const key = `${at}`.padEnd(LONG_TEXT, 'k');
      return entry(key, digits(number).padEnd(LONG_TEXT, 'v'));
    }),
  );

/** Opens a stream for reports. */
async function openStream(client: Http2Client): Promise<number> {
  const id = client.begun * 2 + 1;
  await new CallBatch({ body: Buffer.alloc(0), fields: RLQS, isEnd: false }, 1).send(client);
  return id;
}

/** Time for the service to handle a report, as it ends a stream on which more reports wait. */
const PAUSE_MS = 50;

/** Sends reports on a stream, one after the other. */
async function report(attacker: Attacker, client: Http2Client, reports: readonly Buffer[]): Promise<void> {
  const id = await openStream(client);
  for (const body of reports) {
    if (attacker.isOver || !(await client.sendBody(id, body, false))) return;
    await attacker.sleep(PAUSE_MS);
  }
}

/** Sends reports on one stream for each connection; the streams stay open. */
const reports =
  (connections: number, of: (connection: number) => readonly Buffer[], isRead = true): Attack['prepare'] =>
  () => {
    const all = range(connections).map(of);
    return (attacker) =>
      crowd(attacker, connections, async (which) => {
        const client = await attacker.http2();
        if (!isRead) client.tcp.stopReading();
        await report(attacker, client, all[which] ?? []);
        await Promise.race([client.tcp.closed, attacker.over]);
      });
  };

/** Reports of proxies to the rate limit quota service. */
export const quotas: readonly Attack[] = [
  {
    name: 'quotas: reports of 10,000 buckets from 20 proxies',
    env,
    leavesBytes: BUDGETS.shares,
    prepare: reports(20, (which) => range(10).map((at) => users(which * 10_000 + at * 1_000, 1_000))),
  },
  {
    name: 'quotas: buckets with ids of 32 KB from 10 proxies',
    env,
    leavesBytes: BUDGETS.shares,
    prepare: reports(10, (which) =>
      range(10).map((at) => createReport(range(100).map((one) => longUsage(which * 1_000 + at * 100 + one)))),
    ),
  },
  {
    name: 'quotas: 10 proxies that never read their assignments',
    env,
    leavesBytes: BUDGETS.shares,
    prepare: reports(10, () => range(100).map(() => users(0, 1_000)), false),
  },
  {
    name: 'quotas: 200 proxies that share 1,000 buckets',
    env,
    leavesBytes: BUDGETS.shares,
    prepare: () => {
      const body = users(0, 1_000);
      return reports(200, () => range(100).map(() => body))();
    },
  },
  {
    name: 'quotas: reports of a million empty usages',
    env,
    prepare: reports(4, () => range(20).map(() => createReport([repeated(1_000_000, Buffer.of(USAGE_TAG, 0))]))),
  },
  {
    name: 'quotas: 9,900 streams with a bucket each on 4 connections',
    env,
    leavesBytes: BUDGETS.shares,
    prepare: () => {
      const body = users(0, 1);
      const batches = range(4).map(() => new CallBatch({ body, fields: RLQS, isEnd: false }, 100));
      return (attacker) =>
        crowd(attacker, batches.length, async (which) => {
          const client = await attacker.http2();
          while (client.begun < 9_900 && !attacker.isOver && (await batches[which]?.send(client)));
          await Promise.race([client.tcp.closed, attacker.over]);
        });
    },
  },
  {
    name: 'quotas: 60 reports of 380 KB on streams that are cancelled, behind 90 busy streams, on each of 7 connections',
    env,
    leavesBytes: BUDGETS.shares,
    prepare: () => {
      const busy = users(0, 500);
      const long = createReport([field(UNKNOWN_FIELD, Buffer.alloc(380_000))]);
      const batches = range(7).map(() => new CallBatch({ body: busy, fields: RLQS, isEnd: false }, 1));
      return (attacker) =>
        crowd(attacker, batches.length, async (which) => {
          const client = await attacker.http2();
          while (client.begun < 90 && !attacker.isOver && (await batches[which]?.send(client)));
          for (let stream = 0; stream < 12 && !attacker.isOver && !client.isClosed; stream++) {
            const id = await openStream(client);
            for (let at = 0; at < 5; at++) await client.sendBody(id, long, false);
            await client.send(rstStream(id, CANCEL));
          }
          await Promise.race([client.tcp.closed, attacker.sleep(500)]);
          client.tcp.close();
        });
    },
  },
  {
    name: 'quotas: streams of new proxies, each closed after a report of 100 buckets',
    env,
    leavesBytes: BUDGETS.shares,
    prepare: () => {
      const bodies = range(10).map((at) => users(at * 100, 100));
      const batches = bodies.map((body) => new CallBatch({ body, fields: RLQS }, 20));
      return (attacker) =>
        crowd(attacker, batches.length, async (which) => {
          const client = await attacker.http2();
          while (!attacker.isOver && (await batches[which]?.send(client))) await client.untilEnded(client.begun - 200);
        });
    },
  },
];
