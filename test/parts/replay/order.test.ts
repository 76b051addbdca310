import '../../helpers/realm.ts';
import fc from 'fast-check';
import { TrafficCounts } from '../../../src/parts/replay/input.ts';
import { inOrder, merged } from '../../../src/parts/replay/order.ts';
import type { RecordedRequest, RecordedTraffic } from '../../../src/parts/replay/request.ts';

const at = (timeMs: number, domain = ''): RecordedRequest => ({ timeMs, request: { domain, descriptors: [] } });

async function* batches(requests: readonly RecordedRequest[], size = 3): RecordedTraffic {
  for (let from = 0; from < requests.length; from += size) yield requests.slice(from, from + size);
}

async function all(traffic: RecordedTraffic): Promise<readonly RecordedRequest[]> {
  const found: RecordedRequest[] = [];
  for await (const batch of traffic) found.push(...batch);
  return found;
}

test('requests at most a window out of order are sorted by time, ties in order of input', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(500)), fc.nat(200), async (jitters, windowMs) => {
      const requests = jitters.map((jitter, place) => at(place * 10 + Math.min(jitter, windowMs), String(place)));
      const counts = new TrafficCounts();
      const sorted = await all(inOrder(batches(requests), windowMs, counts));
      expect(sorted).toEqual(requests.toSorted((one, other) => one.timeMs - other.timeMs));
      expect(counts.late).toBe(0);
    }),
  );
});

test('a request later than the window is counted, and answered at the time reached', async () => {
  const counts = new TrafficCounts();
  const sorted = await all(inOrder(batches([at(100), at(5_000), at(9_000), at(200), at(8_500)]), 1_000, counts));
  expect(sorted.map(({ timeMs }) => timeMs)).toEqual([100, 5_000, 5_000, 8_500, 9_000]);
  expect(counts.late).toBe(1);
});

test('several recordings are merged by time, each in its own order even if its clock was set back', async () => {
  const one = [at(10, 'a'), at(40, 'a'), at(20, 'a'), at(50, 'a')];
  const other = [at(15, 'b'), at(30, 'b'), at(45, 'b')];
  const found = await all(merged([batches(one, 1), batches([], 1), batches(other, 2)]));
  expect(found.map(({ timeMs, request }) => `${request.domain}${timeMs}`)).toEqual([
    ...['a10', 'b15', 'b30', 'a40', 'a20', 'b45', 'a50'],
  ]);
});
