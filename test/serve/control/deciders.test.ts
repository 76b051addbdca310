import type { AgentQuestion } from '../../../src/operate/admin/agent.ts';
import { createStatistics } from '../../../src/operate/observe/stats.ts';
import { Deciders } from '../../../src/serve/control/deciders.ts';
import { createReporter } from '../../../src/serve/decider/reporter.ts';
import type { StartedDecider } from '../../../src/serve/link/messages.ts';

const APPEND: AgentQuestion = { kind: 'records', call: { method: 'append', args: ['audit', 'a line', 10] } };
const LATEST: AgentQuestion = { kind: 'records', call: { method: 'latest', args: ['audit', 10] } };

const decider = (id: number, hasReported = false): StartedDecider => ({
  id,
  name: `worker ${id}`,
  counters: 'memory',
  restarts: 0,
  hasReported,
});

test.each([
  { of: 'that reads', question: LATEST, asked: [1, 2] },
  { of: 'that changes something', question: APPEND, asked: [1] },
])('a question $of is asked of deciders $asked when the first ends without a reply', async ({ question, asked }) => {
  const sent: number[] = [];
  const deciders = new Deciders({
    statistics: createStatistics(0.8),
    earlier: createStatistics(0.8),
    firstNumber: 0,
    send: (id) => void sent.push(id),
  });
  for (const id of [1, 2]) deciders.receive({ kind: 'decider', decider: decider(id) });
  const reply = deciders.askOne(question);
  deciders.receive({ kind: 'decider_ended', id: 1 });
  await new Promise(setImmediate);
  deciders.receive({ kind: 'decider_ended', id: 2 });
  expect(await reply).toBeUndefined();
  expect(sent).toEqual(asked);
});

test.each([
  { hasReported: true, earlierCalls: 3 },
  { hasReported: false, earlierCalls: 0 },
])(
  'of 5 calls, $earlierCalls have been sent before when hasReported is $hasReported',
  ({ hasReported, earlierCalls }) => {
    const statistics = createStatistics(0.8);
    const earlier = createStatistics(0.8);
    const deciders = new Deciders({ statistics, earlier, firstNumber: 0, send: () => {} });
    deciders.receive({ kind: 'decider', decider: decider(1, hasReported) });
    const reporter = createReporter(0.8);
    const report = (since: 'start' | 'last', calls: number): void => {
      for (let call = 0; call < calls; call++) reporter.onCallFinished('ShouldRateLimit', 0, 1);
      const message = { kind: 'report', number: 0, since, report: reporter.take(since) } as const;
      deciders.receive({ kind: 'from', id: 1, message });
    };
    report('start', 3);
    report('last', 2);
    expect(statistics.calls).toEqual({ ShouldRateLimit: 5 });
    expect(earlier.calls.ShouldRateLimit ?? 0).toBe(earlierCalls);
  },
);
