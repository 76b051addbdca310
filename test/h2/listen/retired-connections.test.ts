import { RetiredConnections } from '../../../src/h2/listen/retired-connections.ts';

const KIB = 1024;

/** Retires connections whose sockets, like Node's, have not emitted 'close' when they are destroyed. */
function retireInTurn(retired: RetiredConnections, count: number, isInUse: (at: number) => boolean = () => false) {
  const destroyed: number[] = [];
  for (let at = 0; at < count; at++) retired.add({ isInUse: isInUse(at), destroy: () => destroyed.push(at) });
  return destroyed;
}

const range = (from: number, to: number): readonly number[] => Array.from({ length: to - from }, (_, at) => from + at);

test('each connection beyond the bound destroys another one, even in one turn of the event loop', () => {
  const retired = new RetiredConnections(16 * KIB, 2 ** 30);
  expect(retireInTurn(retired, 600)).toEqual(range(0, 600 - 256));
});

test('their own memory is at most an eighth of the limit, but one is always allowed', () => {
  expect(retireInTurn(new RetiredConnections(16 * KIB, 1024 * KIB), 10)).toEqual([0, 1]);
  expect(retireInTurn(new RetiredConnections(80 * KIB, 1024 * KIB), 10)).toEqual(range(0, 9));
  expect(retireInTurn(new RetiredConnections(80 * KIB, 64 * KIB), 10)).toEqual(range(0, 9));
});

test('the oldest without open requests is destroyed, unless many older ones have some', () => {
  const bounded = () => new RetiredConnections(16 * KIB, 20 * 8 * 16 * KIB);
  expect(retireInTurn(bounded(), 22, (at) => at < 3)).toEqual([3, 4]);
  expect(retireInTurn(bounded(), 22, (at) => at < 18)).toEqual([0, 1]);
});

test('a connection that has ended is no longer counted', () => {
  const retired = new RetiredConnections(80 * KIB, 1024 * KIB);
  const destroyed: string[] = [];
  const first = { isInUse: false, destroy: () => destroyed.push('first') };
  retired.add(first);
  retired.delete(first);
  retired.add({ isInUse: false, destroy: () => destroyed.push('second') });
  expect(destroyed).toEqual([]);
});
