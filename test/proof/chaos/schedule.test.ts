import { createSchedule, topologies } from '../../../proof/chaos/schedule.ts';

const MINUTES_MS = 10 * 60_000;

describe.each(topologies)('%s', (topology) => {
  const steps = createSchedule(topology, { seed: 1, lengthMs: MINUTES_MS });
  const kinds = steps.flatMap(({ store }) => (store ? [store.kind] : []));

  test('is the same for the same seed, and different for another', () => {
    expect(createSchedule(topology, { seed: 1, lengthMs: MINUTES_MS })).toEqual(steps);
    expect(createSchedule(topology, { seed: 2, lengthMs: MINUTES_MS })).not.toEqual(steps);
  });

  test('is longer for a longer run, and begins in the same way', () => {
    const longer = createSchedule(topology, { seed: 1, lengthMs: 2 * MINUTES_MS });
    expect(longer.length).toBeGreaterThan(steps.length);
    expect(longer.slice(0, steps.length)).toEqual(steps);
  });

  test('has each kind once before any repeats', () => {
    const dealt = kinds.filter((kind) => !kind.endsWith('returned'));
    const again = dealt.findIndex((kind, at) => dealt.indexOf(kind) < at);
    expect(new Set(dealt.slice(0, again))).toEqual(new Set(dealt));
  });

  test('returns a lost master in the next step', () => {
    const wanted = kinds.flatMap((kind) => (kind.startsWith('master ') ? [kind.replace('master killed', 'dead')] : []));
    const next = kinds.filter((_, at) => kinds[at - 1]?.startsWith('master '));
    expect(next).toEqual(wanted.map((kind) => (kind === 'dead' ? 'dead returned' : 'frozen returned')));
  });
});
