import type { TourStep } from '../step.ts';

/** Alice is admitted again, and the audit log has the reason. */
export const reset: TourStep = {
  title: 'A reset',
  async run({ say, show, run, request, commandOf }) {
    say('Support lets Alice in again. The reset reaches every worker of every instance.');
    await run('reset', 'demo', 'user=alice', '--reason', 'support case 4711');
    const { status } = await request('/', 'alice');
    show(commandOf('/', 'alice'), `HTTP ${status}`);
    say('Each change has its author and its reason in the audit log, written before the change:');
    await run('audit', '--count', '1');
  },
};
