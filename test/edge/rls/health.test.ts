import { Health } from '../../../src/edge/rls/health.ts';
import { heapBytes } from '../../helpers/heap.ts';

let ready: boolean;
let health: Health;
beforeEach(() => {
  ready = true;
  health = new Health(() => ({ ready, reasons: [] }));
});
afterEach(() => health.close());

/** Watches a name. @returns the notifications, and a function to stop */
function watch(name: string): { readonly seen: readonly string[]; readonly stop: () => void } {
  const seen: string[] = [];
  return { seen, stop: health.watch(name, (status) => seen.push(status)) };
}

function turn(isReady: boolean): void {
  ready = isReady;
  health.refresh();
}

test('the service follows readiness at each check, the process is always serving, other names are unknown', () => {
  const statuses = () => ['ratelimit', '', 'other', 'constructor'].map((name) => health.status(name));
  expect(statuses()).toEqual(['SERVING', 'SERVING', undefined, undefined]);
  ready = false;
  expect(statuses()).toEqual(['NOT_SERVING', 'SERVING', undefined, undefined]);
  expect(Object.fromEntries(health.statuses())).toEqual({ '': 'SERVING', ratelimit: 'NOT_SERVING' });
});

test('a watch receives the status at once, then each change', () => {
  const [service, process, other] = [watch('ratelimit'), watch(''), watch('other')];
  for (const isReady of [true, false, false, true]) turn(isReady);
  expect(service.seen).toEqual(['SERVING', 'NOT_SERVING', 'SERVING']);
  expect(process.seen).toEqual(['SERVING']);
  expect(other.seen).toEqual(['SERVICE_UNKNOWN']);
});

test('a stopped watch receives nothing more, and stopping it again has no effect', () => {
  const [one, two] = [watch('ratelimit'), watch('other')];
  expect(health.openWatches).toBe(2);
  one.stop();
  one.stop();
  expect(health.openWatches).toBe(1);
  turn(false);
  expect(one.seen).toEqual(['SERVING']);
  two.stop();
  expect(health.openWatches).toBe(0);
});

test('closing sets the service to NOT_SERVING permanently', () => {
  const { seen } = watch('ratelimit');
  health.close();
  turn(true);
  expect(seen).toEqual(['SERVING', 'NOT_SERVING']);
  expect([health.status('ratelimit'), health.status('')]).toEqual(['NOT_SERVING', 'SERVING']);
});

test('names of watched services are not kept, neither during the watch nor after it', () => {
  const before = heapBytes();
  const stops = Array.from({ length: 20 }, (_, at) => watch(Buffer.alloc(2 ** 20, `${at}`).toString('latin1')).stop);
  expect(heapBytes() - before).toBeLessThan(2 ** 20);
  for (const stop of stops) stop();
  expect(heapBytes() - before).toBeLessThan(2 ** 20);
});
