import { LateCalls } from '../../../src/h2/bounds/late-calls.ts';

const bytesOf = (text: string) => Buffer.from(text);

test('equal messages are counted together, and different ones each by itself', () => {
  const late = new LateCalls();
  const counted: string[] = [];
  const add = (text: string) => late.add(bytesOf(text), (_, times) => void counted.push(`${text} ${times}`));
  for (const text of ['a', 'b', 'a', 'a']) add(text);
  late.count();
  expect(counted).toEqual(['a 3', 'b 1']);
  expect(late.size).toBe(0);
  add('a');
  late.count();
  expect(counted).toEqual(['a 3', 'b 1', 'a 1']);
});

test('only a bounded number of messages is kept, and of octets; those beyond are not counted', () => {
  const late = new LateCalls();
  for (let at = 0; at < 5_000; at++) late.add(bytesOf(`message ${at}`), () => {});
  expect(late.size).toBe(1_024);
});

test('in a turn, 64 KiB of messages are compared, and a kilobyte is counted, or one longer message', () => {
  const late = new LateCalls();
  const counted: string[] = [];
  const add = (text: string) => late.add(bytesOf(text), () => void counted.push(text.slice(0, 2)));
  for (let at = 10; at < 99; at++) add(`${at}`.repeat(1_000)); // 2,000 octets each
  expect(late.size).toBe(33);
  const perTurn = Array.from({ length: 4 }, () => {
    late.count();
    return counted.length;
  });
  expect(perTurn).toEqual([1, 2, 2, 3]);
  add('again');
  expect(late.size).toBe(31);
});

test('room is free again once messages have been counted', () => {
  const late = new LateCalls();
  let counted = 0;
  for (let round = 0; round < 3; round++) {
    for (let at = 0; at < 2; at++) late.add(bytesOf(`${round}${at}`.repeat(10_000)), () => counted++);
    while (late.size > 0) late.count();
  }
  expect(counted).toBe(6);
});
