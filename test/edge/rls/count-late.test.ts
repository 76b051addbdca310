import { createCountLate } from '../../../src/edge/rls/count-late.ts';
import type { WireRequest } from '../../../src/edge/wire/wire.ts';
import { createCounterKeys, ownCounters } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { type Decider, decide } from '../../../src/engine/decide/decide.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const rules = rulesFrom(`
domain: shop
descriptors:
  - { key: user, rate_limit: { unit: hour, requests_per_unit: 10 } }
  - key: upload
    rate_limit: { algorithm: in_flight, requests_per_unit: 2, ttl: 30s }
`);

let decider: Decider;
beforeEach(() => {
  const clock = fakeClock();
  const ledger = ledgerOf(createMemoryBackend(clock, { maxCounters: 100 }), { clock });
  decider = deciderOf(rules, { clock, ledger, counters: ownCounters(createCounterKeys('')) });
});

const request = (key: string, hits = 1, changes: Partial<WireRequest> = {}): WireRequest => ({
  domain: 'shop',
  descriptors: [
    {
      ...{ entries: [{ key, value: 'a' }], limit: null },
      ...{ hits_addend: { value: Math.abs(hits) }, is_negative_hits: hits < 0 },
    },
  ],
  hits_addend: 0,
  ...changes,
});

async function remaining(key: string): Promise<number | undefined> {
  const descriptors = [{ entries: [{ key, value: 'a' }], hits: 0, requestLimit: undefined }];
  const { verdicts } = await decide({ domain: 'shop', descriptors }, decider, 1_000);
  return verdicts[0]?.kind === 'limited' ? verdicts[0].decision.limitRemaining : undefined;
}

test('counts the hits of equal requests together', async () => {
  createCountLate(decider)(request('user', 2), 3);
  expect(await remaining('user')).toBe(4);
});

test('counts at most the capacity of a limit, so that the next window is not affected', async () => {
  const countLate = createCountLate(decider);
  countLate(request('user'), 1_000_000);
  countLate(request('user', -3), 2);
  expect(await remaining('user')).toBe(6);
});

test('takes no slots, and releases those that are given back', async () => {
  const countLate = createCountLate(decider);
  countLate(request('upload'), 2);
  expect(await remaining('upload')).toBe(2);
  await decide(
    { domain: 'shop', descriptors: [{ entries: [{ key: 'upload', value: 'a' }], hits: 2, requestLimit: undefined }] },
    decider,
    1_000,
  );
  expect(await remaining('upload')).toBe(0);
  countLate(request('upload', -1), 1);
  expect(await remaining('upload')).toBe(1);
});

test('counts nothing of peeks and invalid requests', async () => {
  const countLate = createCountLate(decider);
  countLate(request('user', 0), 5);
  countLate(request('user', 1, { problem: 'too long' }), 5);
  countLate(request('nothing'), 5);
  countLate(request('user', 1, { descriptors: [] }), 5);
  expect(await remaining('user')).toBe(10);
});
