import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { NEVER_MS } from '../../src/engine/algorithms/limit.ts';
import { createMemoryBackend } from '../../src/engine/backends/memory/backend.ts';
import { type Answer, decide, type RequestDescriptor } from '../../src/engine/decide/decide.ts';
import { loadSource } from '../../src/engine/rules/reload/book.ts';
import { plainPath } from '../../src/engine/rules/reload/files.ts';
import { loadRules } from '../../src/engine/rules/reload/load.ts';
import { fakeClock } from '../helpers/clock.ts';
import { deciderOf } from '../helpers/decider.ts';
import { ledgerOf } from '../helpers/ledger.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const EXAMPLES = fileURLToPath(new URL('../../config/examples/', import.meta.url));
const names = readdirSync(EXAMPLES);

/**
 * The time of a request, its descriptors in the form of `weir ask`, its hits, and its answer in the form of `shown`.
 */
type Row = readonly [atMs: number, descriptors: string, hits: number, answer: string];

/** The requests for each example, with one clock and one set of counters. */
const schedules: Readonly<Record<string, readonly Row[]>> = {
  'fixed-window.yaml': [
    [20_000, 'api_key=k1', 100, 'OK'],
    [20_000, 'api_key=k1', 1, 'refused for 40000 ms'],
    [20_000, 'api_key=k2', 1, 'OK'],
    [60_000, 'api_key=k1', 100, 'OK'], // twice the limit in 40 seconds
    [60_000, 'partner=acme', 1_000, 'OK'],
    [60_001, 'partner=acme', 1, 'refused for 3599999 ms'],
    [3_600_000, 'partner=acme', 1, 'refused for 60000 ms'], // the partner's hour began a minute after the full hour
    [3_660_000, 'partner=acme', 1, 'OK'],
  ],
  'responses.yaml': [
    [20_000, 'user=ann', 10, 'OK'],
    [20_000, 'user=ann', 1, 'refused for 40000 ms'],
    [20_000, 'api_key=k', 1_000, 'OK'],
  ],
  'any-order.yaml': [
    [0, 'method=POST,path=/a', 3, 'OK'],
    [0, 'path=/a,method=POST', 2, 'OK'],
    [0, 'method=POST,path=/a', 1, 'refused for 60000 ms'], // one counter
    [0, 'path=/b,method=POST', 5, 'OK'],
    [0, 'remote_address=10.9.9.9', 60, 'OK'],
    [0, 'remote_address=2001:db8::1', 40, 'OK'],
    [0, 'remote_address=192.0.2.1', 1, 'refused for 60000 ms'], // one counter
    [0, 'remote_address=10.1.2.3', 1_000, 'OK'],
  ],
  'notify.yaml': [
    [0, 'customer=acme', 10_000, 'OK'],
    [0, 'customer=acme', 1, 'refused for 262800000 ms'],
  ],
  'per-replica.yaml': [
    [0, 'generic_key=checkout', 200, 'OK'], // 100 for each of 2
    [0, 'generic_key=checkout', 1, 'refused for 5 ms'],
  ],
  'fair-shares.yaml': [
    [0, 'generic_key=api,tenant=other', 400, 'OK'],
    [0, 'generic_key=api,tenant=other', 150, 'refused for 143 ms'], // what is left is reserved
    [0, 'generic_key=api,tenant=acme', 250, 'OK'], // borrowed
    [0, 'generic_key=api,tenant=acme', 200, 'OK'], // from its reservation
    [0, 'generic_key=api,tenant=acme', 200, 'refused for 500 ms'], // it is used up
    [1_200, 'generic_key=api,tenant=initech,api_key=production', 150, 'OK'],
  ],
  'shared-slots.yaml': [
    [0, 'generic_key=api,request_id=r1,tenant=other', 25, 'OK'],
    [0, 'generic_key=api,request_id=r2,tenant=other', 1, 'refused for 30000 ms'], // its ceiling
    [1_000, 'generic_key=api,request_id=r3,tenant=more', 25, 'OK'],
    [1_000, 'generic_key=api,request_id=r4,tenant=acme', 10, 'refused for 29000 ms'],
    [1_500, 'generic_key=api,request_id=r1,tenant=other', -10, 'OK'],
    [1_500, 'generic_key=api,request_id=r5,tenant=more', 1, 'refused for 28500 ms'], // reserved for acme
    [1_500, 'generic_key=api,request_id=r4,tenant=acme', 10, 'OK'],
  ],
  'priorities.yaml': [
    [0, 'generic_key=shop,user=u,class=sheddable', 60, 'OK'],
    [0, 'generic_key=shop,user=u,class=sheddable', 1, 'refused for 10 ms'],
    [0, 'generic_key=shop,user=u,class=critical', 40, 'OK'],
    [0, 'generic_key=shop,user=u,class=critical', 1, 'refused for 10 ms'],
  ],
  'in-flight.yaml': [
    [0, 'tenant=acme,request_id=r1', 1, 'OK'],
    [1_000, 'tenant=acme,request_id=r2', 1, 'OK'],
    [2_000, 'tenant=acme,request_id=r3', 1, 'refused for 28000 ms'],
    [2_000, 'tenant=acme,request_id=r3', -1, 'OK'], // its release, which has no effect
    [3_000, 'tenant=acme,request_id=r1', -1, 'OK'],
    [3_000, 'tenant=acme,request_id=r4', 1, 'OK'],
    [30_999, 'tenant=acme,request_id=r5', 1, 'refused for 1 ms'],
    [31_000, 'tenant=acme,request_id=r5', 1, 'OK'], // r2 was never released, but has expired
  ],
  'adaptive.yaml': [
    ...['r1', 'r2', 'r3', 'r4'].map((id): Row => [0, `service=shop,request_id=${id}`, 1, 'OK']),
    [0, 'service=shop,request_id=r5', 1, 'refused for 30000 ms'],
    [0, 'service=shop,request_id=r5', -429, 'OK'], // its release, which has no effect
    [100, 'service=shop,request_id=r1', -200, 'OK'],
    [100, 'service=shop,request_id=r6', 1, 'OK'],
    [100, 'service=shop,request_id=r7', 1, 'refused for 29900 ms'],
    ...[1, 2, 3, 4, 5, 6].map((at): Row => [0, `api=shop,class=sheddable,request_id=s${at}`, 1, 'OK']),
    [0, 'api=shop,class=sheddable,request_id=s7', 1, 'refused for 30000 ms'], // 60 % of 10 slots
    [0, 'api=shop,class=default,request_id=d1', 1, 'OK'],
    [0, 'api=shop,class=unknown,request_id=d2', 1, 'OK'],
    [0, 'api=shop,class=default,request_id=d3', 1, 'refused for 30000 ms'], // 85 %
    [0, 'api=shop,class=critical,request_id=c1', 1, 'OK'],
    [0, 'api=shop,class=critical,request_id=c2', 1, 'OK'],
    [0, 'api=shop,class=critical,request_id=c3', 1, 'refused for 30000 ms'],
  ],
  'llm-tokens.yaml': [
    [0, 'tenant=acme,request_id=r1', 70_000, 'OK'],
    [1_000, 'tenant=acme,request_id=r2', 40_000, 'refused for 59000 ms'], // r1 expires by then
    [2_000, 'tenant=acme,request_id=r1,used=tokens', 20_000, 'OK'],
    [2_000, 'tenant=acme,request_id=r1,used=tokens', 20_000, 'OK'], // repeated, which has no effect
    [2_000, 'tenant=acme,request_id=r2', 80_000, 'OK'],
    [2_000, 'tenant=acme,request_id=r3', 1, 'refused for 1 ms'], // a token is refilled before r2 expires
    [2_001, 'tenant=acme,request_id=r3', 1, 'OK'],
  ],
  'response-cost.yaml': [
    [0, 'app=shop,request_id=r1', 600, 'OK'],
    [0, 'app=shop,request_id=r2', 400, 'OK'],
    [0, 'app=shop,request_id=r3', 100, 'refused for 60000 ms'], // r1 and r2 hold the bucket
    [0, 'app=shop,request_id=r1,cost=points', 12, 'OK'], // the rest is returned
    [0, 'app=shop,request_id=r2,cost=points', 700, 'OK'],
    [0, 'app=shop,request_id=r3', 300, 'refused for 240 ms'], // until 12 points have leaked
    [240, 'app=shop,request_id=r3', 300, 'OK'],
  ],
  'budget.yaml': [
    [0, 'app=shop,request_id=r1', 40_000_000, 'OK'], // 400 USD
    [0, 'app=shop,request_id=r2', 10_000_001, 'refused for 60000 ms'], // until the reservation of r1 expires,
    [0, 'app=shop,request_id=r1,input=small-2', 1_000_000_000, 'OK'], // 150 USD
    [0, 'app=shop,request_id=r2', 35_000_000, 'OK'],
    [0, 'app=shop,request_id=r2,output=large', 35_000_000, 'OK'],
    [0, 'app=shop,request_id=r3', 1, 'refused for 255600000 ms'], // until the next month begins in Berlin
  ],
  'sliding-window-log.yaml': [
    [0, 'export=acme', 1, 'OK'],
    [600_000, 'export=acme', 2, 'OK'],
    [1_200_000, 'export=acme', 1, 'refused for 2400000 ms'],
    [3_600_000, 'export=acme', 1, 'OK'],
    [3_600_001, 'export=acme', 1, 'refused for 599999 ms'],
    [4_200_000, 'password_reset=acme', 2, 'OK'],
    [4_500_000, 'password_reset=acme', 1, 'refused for 300000 ms'],
    [4_799_999, 'password_reset=acme', 1, 'refused for 300001 ms'], // refusals have replaced the mails in the log
    [5_100_000, 'password_reset=acme', 1, 'OK'],
  ],
  'sliding-window-counter.yaml': [
    [0, 'api_key=k1', 100, 'OK'],
    [0, 'api_key=k1', 1, 'refused for 60001 ms'],
    [90_000, 'api_key=k1', 50, 'OK'],
    [90_000, 'api_key=k1', 1, 'refused for 1 ms'],
    [120_000, 'payer=acme', 10, 'OK'],
    [180_001, 'payer=acme', 1, 'refused for 5999 ms'], // 9.99 hits of the previous minute are rounded up to 10
    [186_000, 'payer=acme', 1, 'OK'],
  ],
  'sliding-window-buckets.yaml': [
    [5_000, 'account=acme', 600, 'OK'],
    [5_000, 'account=acme', 1, 'refused for 65000 ms'],
    [69_999, 'account=acme', 1, 'refused for 1 ms'],
    [70_000, 'account=acme', 600, 'OK'],
  ],
  'token-bucket.yaml': [
    [0, 'api_key=k1', 50, 'OK'],
    [0, 'api_key=k1', 1, 'refused for 100 ms'],
    [1_000, 'api_key=k1', 10, 'OK'],
    [1_000, 'api_key=k1', 1, 'refused for 100 ms'],
    [1_800_000, 'tenant=acme', 3_000, 'OK'],
    [1_800_000, 'tenant=acme', 1, 'refused for 1800000 ms'],
    [3_600_000, 'tenant=acme', 1_000, 'OK'],
    [3_600_000, 'tenant=acme', 1, 'refused for 3600000 ms'],
  ],
  'leaky-bucket.yaml': [
    [0, 'webhook=shop', 1, 'OK'],
    [0, 'webhook=shop', 1, 'refused for 500 ms'],
    [0, 'webhook=bank', 1, 'OK'],
    [500, 'webhook=shop', 1, 'OK'],
    [500, 'sms=acme', 10, 'OK'],
    [500, 'sms=acme', 1, 'refused for 1000 ms'],
  ],
  'by-user.yaml': [
    [0, 'user=alice', 60, 'OK'],
    [0, 'user=alice', 1, 'refused for 60001 ms'],
    [0, 'user=bob', 60, 'OK'],
    [0, 'user=nightly-import', 6_000, 'OK'],
    [0, 'user=nightly-import', 1, 'refused for 60001 ms'],
    [0, 'user=monitoring', 1_000_000, 'OK'],
  ],
  'by-client-address.yaml': [
    [0, 'remote_address=192.0.2.1', 100, 'OK'],
    [0, 'remote_address=192.0.2.1', 1, 'refused for 60001 ms'],
    [0, 'remote_address=192.0.2.2', 1, 'OK'],
    [0, 'remote_address=203.0.113.7', 2_000, 'OK'],
    [0, 'remote_address=198.51.100.1', 30, 'OK'],
    [0, 'remote_address=198.51.100.2', 1, 'refused for 60001 ms'],
  ],
  'allow-list.yaml': [
    [0, 'remote_address=10.1.2.3', 1_000_000, 'OK'],
    [0, 'remote_address=::ffff:10.1.2.3', 1_000_000, 'OK'],
    [0, 'remote_address=fd12::1', 1_000_000, 'OK'],
    [0, 'remote_address=203.0.113.7', 1_000_000, 'OK'],
    [0, 'remote_address=203.0.113.8', 100, 'OK'],
    [0, 'remote_address=203.0.113.8', 1, 'refused for 60000 ms'],
    [0, 'remote_address=10.99.0.1', 20, 'OK'],
    [0, 'remote_address=::ffff:10.99.0.1', 1, 'refused for 60000 ms'],
    [0, 'remote_address=10.99.0.2', 20, 'OK'],
    [0, 'remote_address=198.51.100.1', 20, 'OK'],
    [0, 'remote_address=2001:db8:bad::1', 10, 'OK'],
    [0, 'remote_address=198.51.100.2', 1, 'refused for 60000 ms'],
    [0, 'remote_address=unknown', 100, 'OK'],
  ],
  'required-keys.yaml': [
    [0, 'generic_key=every_request remote_address=10.0.0.1', 10, 'OK'],
    [1_000, 'generic_key=every_request remote_address=10.0.0.1', 1, 'refused for 59000 ms'],
    [1_000, 'generic_key=every_request remote_address=10.0.0.2', 1, 'OK'],
    [1_000, 'remote_address=10.0.0.1 user=ann', 1, 'OK'],
    [1_000, 'remote_address=10.0.0.1 api_key=k1', 1, 'OK'],
    [1_000, 'route=payments user=ann', 1, 'OK'],
    [1_000, 'route=payments api_key=k1', 1, 'refused'],
  ],
  'by-device.yaml': [
    [0, 'user=ann user=ann,device=phone', 60, 'OK'],
    [0, 'user=ann user=ann,device=phone', 20, 'refused for 79001 ms'], // until a third of the 60 has left the window
    [0, 'user=ann user=ann,device=tablet', 40, 'OK'], // the refused request was not counted
    [0, 'user=ann user=ann,device=tablet', 1, 'refused for 60001 ms'], // the user's own limit
    [0, 'user=bob user=bob,device=phone', 60, 'OK'],
  ],
  'by-endpoint-and-method.yaml': [
    [0, 'method=GET,path=/orders/17', 60, 'OK'],
    [0, 'method=GET,path=/orders?page=2', 40, 'OK'],
    [0, 'method=GET,path=/orders', 1, 'refused for 1000 ms'],
    [0, 'method=GET,path=/health', 1_000, 'OK'],
    [0, 'method=POST,path=/orders', 10, 'OK'],
    [0, 'method=POST,path=/orders', 1, 'refused for 1000 ms'],
    [0, 'method=POST,path=/orders/17/refund', 30, 'OK'],
    [0, 'method=POST,path=/orders/18/refund', 1, 'refused for 60000 ms'],
    [0, 'method=DELETE,path=/orders/17', 20, 'OK'],
    [0, 'method=DELETE,path=/orders/17', 1, 'refused for 1000 ms'],
    [0, 'method=DELETE,path=/orders/18', 1, 'OK'],
  ],
  'by-plan.yaml': [
    [0, 'plan=free,user=ann', 10, 'OK'],
    [0, 'plan=free,user=ann', 1, 'refused for 1000 ms'],
    [0, 'plan=free,user=bob', 1, 'OK'],
    [0, 'plan=pro,user=cid', 100, 'OK'],
    [0, 'plan=pro,user=cid', 1, 'refused for 100 ms'],
    [0, 'plan=enterprise,user=dan', 1_000_000, 'OK'],
    [0, 'plan=trial,user=eve', 2, 'OK'],
    [0, 'plan=trial,user=eve', 1, 'refused for 5000 ms'],
  ],
  'logins.yaml': [
    [0, login('192.0.2.1', 'alice'), 5, 'OK'],
    [1_000, login('192.0.2.1', 'alice'), 1, 'refused for 59000 ms'],
    [1_000, login('192.0.2.1', 'bob'), 1, 'refused for 59000 ms'],
    [2_000, login('203.0.113.7', 'alice'), 5, 'OK'], // ten for the account, without the refused ones
    [3_000, login('198.51.100.4', 'alice'), 1, 'refused for 57000 ms'],
    [60_000, login('192.0.2.1', 'alice'), 1, 'OK'],
  ],
  'failed-logins.yaml': [
    [0, failed('192.0.2.1/32', 'alice'), 1, 'OK'],
    [0, failed('192.0.2.1/32', 'alice'), 200, 'OK'],
    ...Array.from({ length: 5 }, (_, at): Row => [at, failed('192.0.2.1/32', 'alice'), 401, 'OK']),
    [1_004, failed('192.0.2.1/32', 'alice'), 1, 'refused for 3599000 ms'],
    [1_004, failed('2001:db8::/64', 'alice'), 1, 'OK'],
    [3_600_004, failed('192.0.2.1/32', 'alice'), 1, 'OK'],
    ...Array.from({ length: 5 }, (_, at): Row => [3_600_005 + at, failed('192.0.2.1/32', 'alice'), 403, 'OK']),
    [3_600_009, failed('192.0.2.1/32', 'alice'), 1, 'refused for 7200000 ms'],
  ],
  'penalties.yaml': [
    [0, 'remote_address=192.0.2.1', 100, 'OK'],
    [1_000, 'remote_address=192.0.2.1', 1, 'refused for 600000 ms'],
    [60_000, 'remote_address=192.0.2.1', 1, 'refused for 541000 ms'],
    [601_000, 'remote_address=192.0.2.1', 100, 'OK'],
    [601_000, 'remote_address=192.0.2.1', 1, 'refused for 1200000 ms'],
    [601_000, 'remote_address=192.0.2.2', 1, 'OK'],
  ],
  'shaping.yaml': [
    [0, 'generic_key=legacy', 1, 'OK'],
    [0, 'generic_key=legacy', 1, 'OK, held for 100 ms'],
    [0, 'generic_key=legacy', 1, 'OK, held for 200 ms'],
    [0, 'generic_key=legacy', 1, 'OK, held for 300 ms'],
    [0, 'generic_key=legacy', 1, 'OK, held for 400 ms'],
    [0, 'generic_key=legacy', 1, 'OK, held for 500 ms'],
    [0, 'generic_key=legacy', 1, 'refused for 100 ms'],
    [100, 'generic_key=legacy', 1, 'OK, held for 500 ms'],
    [10_000, 'generic_key=legacy', 1, 'OK'],
  ],
  'several-limits.yaml': [
    [0, 'api_key=k1', 10, 'OK'],
    [0, 'api_key=k1', 1, 'refused for 1000 ms'],
    ...Array.from({ length: 99 }, (_, at): Row => [(at + 1) * 1_000, 'api_key=k1', 10, 'OK']),
    [100_000, 'api_key=k1', 1, 'refused for 3500000 ms'],
    [100_000, 'api_key=k2', 1, 'OK'],
  ],
  'soft-limits.yaml': [
    [0, 'api_key=k1', 100, 'OK'],
    [0, 'api_key=k1', 20, 'OK, soft-limits.api_key is soft'],
    [0, 'api_key=k1', 1, 'refused for 60000 ms'],
    [60_000, 'api_key=k1', 1, 'OK'],
  ],
  'calendar.yaml': [
    [0, 'customer=acme', 1_000, 'OK'],
    [0, 'customer=acme', 1, 'refused for 82800000 ms'], // 23 hours
    [0, 'report=acme', 20, 'OK'],
    [0, 'report=acme', 1, 'refused for 262800000 ms'], // 73 hours: to the first of April in UTC
    [82_800_000, 'customer=acme', 1, 'OK'],
  ],
  'schedules.yaml': [
    [0, 'user=alice', 120, 'OK'], // at night
    [0, 'user=alice', 1, 'refused for 60000 ms'],
    [0, 'customer=acme', 5_000, 'OK'], // in the campaign
    [0, 'customer=acme', 1, 'refused for 82800000 ms'], // 23 hours
    [0, 'export=all', 1_000_000, 'OK'],
    [14_400_000, 'export=all', 1, 'refused for 3600000 ms'], // 03:00 in UTC
    [18_000_000, 'user=alice', 60, 'OK'], // 06:00 in Berlin
    [18_000_000, 'user=alice', 1, 'refused for 60000 ms'],
    [18_000_000, 'export=all', 1_000_000, 'OK'],
    [82_800_000, 'customer=acme', 5_000, 'OK'],
    [115_200_000, 'customer=acme', 1, 'refused for 54000000 ms'], // the campaign has ended: 15 hours are left of the day
  ],
};

function login(address: string, account: string): string {
  return `generic_key=login,remote_address=${address} generic_key=login,account=${account}`;
}

function failed(network: string, account: string): string {
  return `generic_key=login,masked_remote_address=${network} generic_key=login,account=${account}`;
}

/** The start of an hour everywhere, and in Berlin of the day on which daylight saving time begins. */
const START_MS = Date.UTC(2026, 2, 28, 23);

/** The setup of an example: its rules, its own counters, and a controllable clock. */
function open(name: string) {
  const loaded = loadRules([{ path: EXAMPLES + name, name }], { mergeDomains: false });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const [domain = ''] = loaded.rules.domains.keys();
  const clock = fakeClock();
  const decider = deciderOf(loaded.rules, {
    clock,
    ledger: ledgerOf(createMemoryBackend(clock, { maxCounters: 1_000 })),
  });
  return async ([atMs, descriptors, hits]: Row): Promise<Answer> => {
    clock.set(START_MS + atMs);
    return decide({ domain, descriptors: descriptors.split(' ').map((one) => descriptor(one, hits)) }, decider, 1_000);
  };
}

function descriptor(text: string, hits: number): RequestDescriptor {
  const entries = text.split(',').map((entry) => {
    const [, key = '', value = ''] = /^([^=]*)=(.*)$/.exec(entry) ?? [];
    return { key, value };
  });
  return { entries, requestLimit: undefined, hits };
}

/** An answer in words, from a caller's point of view. */
function shown({ overallCode, verdicts, delayMs }: Answer): string {
  const limited = verdicts.flatMap((verdict) => (verdict.kind === 'limited' ? [verdict] : []));
  const waitMs = waitOf({ verdicts });
  if (overallCode === 'OVER_LIMIT') return waitMs === NEVER_MS ? 'refused' : `refused for ${waitMs} ms`;
  const soft = limited.find(({ decision }) => decision.soft);
  if (soft) return `OK, ${soft.rule.path} is soft`;
  return delayMs > 0 ? `OK, held for ${delayMs} ms` : 'OK';
}

/** The time until all refusing limits would admit the request. */
const waitOf = ({ verdicts }: Pick<Answer, 'verdicts'>): number =>
  Math.max(0, ...verdicts.map((verdict) => (verdict.kind === 'limited' ? verdict.decision.retryAfterMs : 0)));

describe.each(names)('%s', (name) => {
  const rows = schedules[name] ?? [];

  test('loads without a warning', () => {
    expect(loadRules([{ path: EXAMPLES + name, name }], { mergeDomains: false })).toMatchObject({
      ok: true,
      warnings: [],
    });
  });

  test('names its schema on the first line, for editors', () => {
    const text = readFileSync(EXAMPLES + name, 'utf8');
    expect(text).toMatch(/^# yaml-language-server: \$schema=\.\.\/schema\/rules\.schema\.json\n/);
  });

  test('is named in docs/rules.md', () => {
    expect(readFileSync(join(PROJECT, 'docs/rules.md'), 'utf8')).toContain(`(../config/examples/${name})`);
  });

  test('behaves as described', async () => {
    const ask = open(name);
    const answers: string[] = [];
    for (const row of rows) answers.push(shown(await ask(row)));
    expect(answers).toEqual(rows.map(([, , , answer]) => answer));
    expect(answers).toContain('OK');
    expect(answers.some((answer) => answer.startsWith('refused'))).toBe(true);
  });
});

test('all examples load together', async () => {
  const loaded = await loadSource(plainPath(EXAMPLES), { mergeDomains: false });
  expect(loaded).toMatchObject({ ok: true, warnings: [] });
});

test('the default rules have no warnings', async () => {
  const loaded = await loadSource(plainPath(join(PROJECT, 'config/rules.yaml')), { mergeDomains: false });
  expect(loaded).toMatchObject({ ok: true, warnings: [] });
});

test('every schedule has its example', () => expect(Object.keys(schedules).sort()).toEqual(names));

const FAMOUS = fileURLToPath(new URL('../../config/famous/', import.meta.url));

test.each(readdirSync(FAMOUS))('a famous limiter loads without a warning that it does not explain: %s', (name) => {
  const loaded = loadRules([{ path: FAMOUS + name, name }], { mergeDomains: false });
  const isExplained = readFileSync(FAMOUS + name, 'utf8').includes('weir check warns of such a burst');
  const burst = expect.objectContaining({ message: expect.stringMatching(/^is below the rate/) });
  expect(loaded).toMatchObject({ ok: true, warnings: isExplained ? [burst] : [] });
});
