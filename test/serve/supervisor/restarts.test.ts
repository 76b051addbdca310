import { keepUp } from '../../../src/serve/supervisor/restarts.ts';

test('a process that cannot be started is tried again, as one that has ended', async () => {
  const closing = new AbortController();
  const first = { ended: Promise.resolve('SIGKILL') };
  const replacements = [
    () => {
      throw new Error('spawn ENOMEM');
    },
    () => ({ ended: Promise.resolve('exit code 1') }),
    () => {
      closing.abort();
      return first;
    },
  ];
  const ends: string[] = [];
  await keepUp({
    first,
    replace: () => replacements.shift()?.() ?? first,
    closing: closing.signal,
    onEnd: (how) => ends.push(how),
  });
  expect(ends).toEqual(['SIGKILL', 'no process: spawn ENOMEM', 'exit code 1']);
  expect(replacements).toEqual([]);
});
