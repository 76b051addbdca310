import { LateCalls } from '../../../src/h2/bounds/late-calls.ts';

const bytesOf = (text: string) => Buffer.from(text);

test('equal messages are counted together, and different ones each by itself', () => {
  const late = new LateCalls();
  const counted: string[] = [];
  const add = (text: string) => late.add(bytesOf(text), (times) => void counted.push(`${text} ${times}`));
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
  const large = new LateCalls();
  for (let at = 0; at < 5; at++) large.add(bytesOf(`${at}`.repeat(400_000)), () => {});
  expect(large.size).toBe(2);
});

test('room is free again once messages have been counted', () => {
  const late = new LateCalls();
  let counted = 0;
  for (let round = 0; round < 3; round++) {
    for (let at = 0; at < 2; at++) late.add(bytesOf(`${round}${at}`.repeat(250_000)), () => counted++);
    while (late.size > 0) late.count();
  }
  expect(counted).toBe(6);
});
