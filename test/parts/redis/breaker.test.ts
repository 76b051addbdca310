import { Breaker } from '../../../src/parts/redis/breaker.ts';

let nowMs: number;
/** A breaker with exact times: the middle of the random range. */
const newBreaker = (): Breaker =>
  new Breaker(
    () => nowMs,
    () => 0.5,
  );

/** Fails a call that is in flight. */
const fail = (breaker: Breaker): void => {
  breaker.began();
  breaker.failed('no reply');
};

beforeEach(() => {
  nowMs = 1_000;
});

test('one failure does not open the circuit, two in a row do', () => {
  const breaker = newBreaker();
  fail(breaker);
  breaker.began();
  breaker.succeeded();
  fail(breaker);
  expect([breaker.state, breaker.refusal]).toEqual(['closed', undefined]);
  fail(breaker);
  expect([breaker.state, breaker.refusal]).toEqual(['open', 'the circuit is open: no reply']);
});

test("when the circuit's time is over, one trial call is sent, and its result decides for all", () => {
  const breaker = newBreaker();
  fail(breaker);
  fail(breaker);
  nowMs += 49;
  expect(breaker.state).toBe('open');
  nowMs += 1;
  expect([breaker.state, breaker.refusal]).toEqual(['half_open', undefined]);
  breaker.began();
  expect([breaker.state, breaker.refusal]).toEqual(['half_open', 'the circuit is open: no reply']);
  breaker.succeeded();
  expect([breaker.state, breaker.refusal]).toEqual(['closed', undefined]);
});

test('the circuit stays open twice as long each time, for at most half a second', () => {
  const breaker = newBreaker();
  fail(breaker);
  fail(breaker);
  const times = [50, 100, 200, 400, 500, 500, 500].map((ms) => {
    nowMs += ms - 1;
    const before = breaker.state;
    nowMs += 1;
    const after = breaker.state;
    fail(breaker);
    return [before, after];
  });
  expect(times).toEqual(times.map(() => ['open', 'half_open']));
});

test('calls that were in flight when the circuit opened change nothing', () => {
  const breaker = newBreaker();
  fail(breaker);
  fail(breaker);
  breaker.failed('late');
  nowMs += 50;
  expect(breaker.state).toBe('half_open');
});

test("jitter makes the circuit's times 0.5 to 1.5 times as long", () => {
  const longest = new Breaker(
    () => nowMs,
    () => 0.999,
  );
  const shortest = new Breaker(
    () => nowMs,
    () => 0,
  );
  for (const breaker of [longest, longest, shortest, shortest]) fail(breaker);
  nowMs += 25;
  expect([longest.state, shortest.state]).toEqual(['open', 'half_open']);
  nowMs += 50;
  expect(longest.state).toBe('half_open');
});
