import { readFileSync } from 'node:fs';
import { accuracyPage, type Compared, compareAlgorithms } from '../../proof/accuracy/page.ts';

const comparisons = compareAlgorithms();

const under = (name: string, algorithm: Compared) => {
  const found = comparisons.find(({ model }) => model.name === name)?.judgements[algorithm];
  if (!found) throw new Error(`there is no traffic '${name}'`);
  const { decisions, wronglyAdmitted, wronglyRefused } = found;
  return { ...found, wrong: (wronglyAdmitted + wronglyRefused) / decisions };
};

test('the page is what the command writes', () => {
  const page = readFileSync(new URL('../../docs/results/accuracy.md', import.meta.url), 'utf8');
  expect(accuracyPage(comparisons)).toBe(page);
});

test('the log decides like an exact log', () => {
  for (const { judgements } of comparisons)
    expect(judgements.sliding_window_log).toMatchObject({ wronglyAdmitted: 0, wronglyRefused: 0, innocentRefused: 0 });
});

test('the counter has a mean error of about 6 % on even traffic, and hardly decides otherwise', () => {
  const { meanError, wrong } = under('even', 'sliding_window_counter');
  expect([meanError.toFixed(2), wrong < 0.001]).toEqual(['0.06', true]);
});

test('on bursts the counter admits far more than the limit, and the parts of a window never do', () => {
  const counter = under('bursty', 'sliding_window_counter');
  const parts = under('bursty', 'sliding_window_buckets');
  expect(counter.wrong).toBeGreaterThan(0.02);
  expect(counter.worst).toBeGreaterThan(180);
  expect(parts.wrong).toBeLessThan(counter.wrong);
  expect(parts.worst).toBe(120);
});

test('jobs that start once a minute are refused by the counter and by parts, and not by a bucket', () => {
  for (const name of ['sliding_window_counter', 'sliding_window_buckets'] as const)
    expect(under('cron-like', name)).toMatchObject({ innocent: 200, innocentRefused: expect.any(Number) });
  expect(under('cron-like', 'sliding_window_counter').innocentRefused).toBeGreaterThan(9);
  expect(under('cron-like', 'sliding_window_buckets').innocentRefused).toBeGreaterThan(9);
  expect(under('cron-like', 'token_bucket').innocentRefused).toBe(0);
});
