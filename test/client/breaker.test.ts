import { Breaker } from '../../client/src/breaker.ts';

const OPTIONS = { failures: 2, minOpenMs: 100, maxOpenMs: 300 };

function create() {
  let nowMs = 0;
  const breaker = new Breaker(OPTIONS, () => nowMs);
  const fail = (): void => {
    breaker.begin();
    breaker.failed();
  };
  const advance = (ms: number): void => {
    nowMs += ms;
  };
  return { breaker, fail, advance };
}

test('a breaker opens only after consecutive failures', () => {
  const { breaker, fail } = create();
  fail();
  breaker.begin();
  breaker.succeeded();
  fail();
  expect([breaker.state, breaker.admits]).toEqual(['closed', true]);
  fail();
  expect([breaker.state, breaker.admits]).toEqual(['open', false]);
});

test('an open breaker admits one trial after its time, and closes if that succeeds', () => {
  const { breaker, fail, advance } = create();
  fail();
  fail();
  advance(OPTIONS.minOpenMs);
  expect([breaker.state, breaker.admits]).toEqual(['half_open', true]);
  breaker.begin();
  expect([breaker.state, breaker.admits]).toEqual(['half_open', false]);
  breaker.succeeded();
  expect([breaker.state, breaker.admits]).toEqual(['closed', true]);
});

test('each trial that fails doubles the time, up to the maximum', () => {
  const { breaker, fail, advance } = create();
  fail();
  for (const openMs of [100, 200, 300, 300]) {
    fail();
    advance(openMs / 2 - 1); // random, but no shorter than half
    expect(breaker.admits).toBe(false);
    advance(openMs / 2 + 1);
    expect(breaker.admits).toBe(true);
  }
});

test('a trial whose caller gives up lets another call be the trial', () => {
  const { breaker, fail, advance } = create();
  fail();
  fail();
  advance(OPTIONS.minOpenMs);
  breaker.begin();
  breaker.abandoned();
  expect(breaker.admits).toBe(true);
});

test('failures of calls sent before the breaker opened do not prolong its time', () => {
  const { breaker, fail, advance } = create();
  for (let calls = 0; calls < 5; calls++) breaker.begin();
  fail();
  fail();
  for (let calls = 0; calls < 5; calls++) breaker.failed();
  advance(OPTIONS.minOpenMs);
  expect(breaker.admits).toBe(true);
});
