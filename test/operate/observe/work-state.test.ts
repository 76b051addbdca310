import { Background, failingText, mergeWork } from '../../../src/operate/observe/work-state.ts';
import { fakeClock } from '../../helpers/clock.ts';

function open() {
  const clock = fakeClock(1_700_000_000_000);
  const lines: string[] = [];
  const log = { warn: (line: string) => lines.push(line), error: (line: string) => lines.push(line) };
  return { clock, lines, background: new Background({ clock, log: log as never }) };
}

test('work that fails is logged when that begins and ends, and reported since then with the last reason', async () => {
  const { clock, lines, background } = open();
  const usage = background.add('usage', 'collecting usage');
  background.add('findings', 'comparing');
  await usage.run(() => Promise.reject(new Error('no connection')));
  clock.advance(1_000);
  usage.failed('no disk');
  const [report, other] = background.report();
  expect(report?.failing && failingText(report.failing)).toBe('since 2023-11-14T22:13:20.000Z because no disk');
  expect(other).toEqual({ name: 'findings', does: 'comparing', failing: undefined });
  await usage.run(async () => {});
  usage.works();
  expect(background.report()[0]?.failing).toBeUndefined();
  expect(lines).toEqual(['collecting usage is failing: no connection', 'collecting usage works again']);
});

test('work may fail while other processes start', () => {
  const { clock, lines, background } = open();
  const state = background.add('overrides', 'reading overrides', 1_000);
  state.failed('nobody answers');
  expect(lines).toEqual([]);
  clock.advance(1_000);
  state.failed('nobody answers');
  expect(lines).toEqual(['reading overrides is failing: nobody answers']);
});

test('work of several processes fails if that of one does, since the first failure', () => {
  const work = { name: 'recording', does: 'recording' } as const;
  const [second, first] = [2, 1].map((sinceMs) => ({ ...work, failing: { sinceMs, reason: `${sinceMs}` } }));
  expect(mergeWork([work, second ?? work, first ?? work, { name: 'usage', does: 'collecting' }])).toEqual([
    first,
    { name: 'usage', does: 'collecting' },
  ]);
});
