import type { AgentQuestion } from '../../../src/operate/admin/agent.ts';
import { createStatistics } from '../../../src/operate/observe/stats.ts';
import { Deciders } from '../../../src/serve/control/deciders.ts';

const APPEND: AgentQuestion = { kind: 'records', call: { method: 'append', args: ['audit', 'a line', 10] } };
const LATEST: AgentQuestion = { kind: 'records', call: { method: 'latest', args: ['audit', 10] } };

test.each([
  { of: 'that reads', question: LATEST, asked: [1, 2] },
  { of: 'that changes something', question: APPEND, asked: [1] },
])('a question $of is asked of deciders $asked when the first ends without a reply', async ({ question, asked }) => {
  const sent: number[] = [];
  const deciders = new Deciders({
    statistics: createStatistics(0.8),
    firstNumber: 0,
    send: (id) => void sent.push(id),
  });
  for (const id of [1, 2]) {
    deciders.receive({ kind: 'decider', decider: { id, name: `worker ${id}`, counters: 'memory', restarts: 0 } });
  }
  const reply = deciders.askOne(question);
  deciders.receive({ kind: 'decider_ended', id: 1 });
  await new Promise(setImmediate);
  deciders.receive({ kind: 'decider_ended', id: 2 });
  expect(await reply).toBeUndefined();
  expect(sent).toEqual(asked);
});
