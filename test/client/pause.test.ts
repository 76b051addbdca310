import { bareDecision } from '../../client/src/decision.ts';
import { createJitter, pauseAfter } from '../../client/src/deferral/pause.ts';
import { WeirUnavailable } from '../../client/src/errors.ts';

const refused = { ...bareDecision(false, 'backend'), limit: 5, windowMs: 60_000, resetMs: 30_000 };

test.each([
  ['Weir says when the request could pass', { retryAfterMs: 700 }, { kind: 'refused', ms: 700 }],
  ['Weir knows no such time', {}, { kind: 'never' }],
  ['an operator blocks the key', { limit: 0, resetMs: undefined }, { kind: 'refused', ms: 60_000 }],
  ['another service sends the time of the reset only', { source: undefined }, { kind: 'refused', ms: 30_000 }],
  ['the client caches such a refusal', { source: 'client_refusal' }, { kind: 'refused', ms: 30_000 }],
  ['the service sends no time', { source: undefined, resetMs: undefined }, { kind: 'refused', ms: 60_000 }],
  [
    'the service does not answer',
    { source: 'client_deny', error: new WeirUnavailable('timeout', 'no answer') },
    { kind: 'unanswered', ms: 1_000 },
  ],
])('a key pauses according to its refusal: %s', (_, facts, pause) => {
  expect(pauseAfter({ ...refused, ...facts })).toEqual(pause);
});

test('the jitter is at most a tenth of the wait, and at most its maximum, and never shortens the wait', () => {
  for (const random of [0, 0.5, 0.999]) {
    const jitter = createJitter(1_000, () => random);
    expect(jitter(50)).toBe(Math.ceil(50 + 5 * random));
    expect(jitter(60_000)).toBe(Math.ceil(60_000 + 1_000 * random));
  }
  expect(createJitter(0)(50)).toBe(50);
});
