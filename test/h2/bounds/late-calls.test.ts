import { LateCalls } from '../../../src/h2/bounds/late-calls.ts';

const toBytes = (text: string) => Buffer.from(text);

test('equal messages are counted together, and different ones each by itself', () => {
  const late = new LateCalls();
  const counted: string[] = [];
  const add = (text: string) => late.add(toBytes(text), (_, times) => void counted.push(`${text} ${times}`));
  for (const text of ['a', 'b', 'a', 'a']) add(text);
  late.count();
  expect(counted).toEqual(['a 3', 'b 1']);
  expect(late.size).toBe(0);
  add('a');
  late.count();
  expect(counted).toEqual(['a 3', 'b 1', 'a 1']);
});

test('in a turn, 8 KiB of messages are compared, and 128 octets are counted, or one longer message', () => {
  const late = new LateCalls();
  const counted: string[] = [];
  const add = (text: string) => late.add(toBytes(text), () => void counted.push(text.slice(0, 2)));
  for (let at = 10; at < 99; at++) add(`${at}`.repeat(250)); // 500 octets each
  expect(late.size).toBe(17);
  const perTurn = Array.from({ length: 6 }, () => {
    late.count();
    return counted.length;
  });
  expect(perTurn).toEqual([1, 1, 1, 2, 2, 2]);
  add('again');
  expect(late.size).toBe(16);
});

test('only a bounded number of messages is kept; those beyond it are not counted', () => {
  const late = new LateCalls();
  for (let at = 0; at < 50_000; at++) {
    late.add(toBytes(`message ${at}`), () => {});
    if (at % 100 === 0) late.count();
  }
  expect(late.size).toBeGreaterThan(1_000);
  expect(late.size).toBeLessThanOrEqual(1_024);
});

test('accepts messages again once earlier ones have been counted', () => {
  const late = new LateCalls();
  let counted = 0;
  for (let round = 0; round < 3; round++) {
    for (let at = 0; at < 2; at++) late.add(toBytes(`${round}${at}`.repeat(2_000)), () => counted++);
    while (late.size > 0) late.count();
  }
  expect(counted).toBe(6);
});
