import type { TourStep } from '../step.ts';

/** Why Alice is refused, and descriptors that match no rule. */
export const why: TourStep = {
  title: 'Why?',
  async run({ say, run }) {
    say(
      'Alice calls support. `weir explain` answers as the service would answer her next request, and shows the way down ' +
        'the rules and the sum that decides. It charges nothing.',
    );
    await run('explain', 'demo', 'user=alice');
    say('The opposite question: why is something not limited? This lists what met no rule in the last minute.');
    await run('unmatched', '--count', '1');
  },
};
