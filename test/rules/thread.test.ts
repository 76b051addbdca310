import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { openThread, type Thread } from '../../src/rules/thread.ts';

let folder: string;
let thread: Thread<string, string>;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'thread-'));
  const path = join(folder, 'entry.mjs');
  writeFileSync(
    path,
    `import { parentPort, workerData } from 'node:worker_threads';
    parentPort.on('message', (job) => {
      if (job === 'throw') throw new Error('no such job');
      if (job === 'exit') process.exit(3);
      if (job !== 'hang') parentPort.postMessage(workerData + job);
    });`,
  );
  thread = openThread(pathToFileURL(path), 'did ');
});
afterAll(() => {
  thread.close();
  rmSync(folder, { recursive: true });
});

test('jobs are done one after another, with the options of the thread', async () => {
  expect(await Promise.all([thread.do('a'), thread.do('b')])).toEqual(['did a', 'did b']);
});

test.each([
  ['throw', 'no such job'],
  ['exit', 'the thread ended with exit code 3'],
])('a job that makes the thread fail (%s) is rejected, and the next one runs in a new thread', async (job, why) => {
  await expect(thread.do(job)).rejects.toThrow(why);
  expect(await thread.do('c')).toBe('did c');
});

test('closing rejects the running job and those that wait', async () => {
  const jobs = [thread.do('hang'), thread.do('d')];
  const settled = Promise.allSettled(jobs);
  await new Promise(setImmediate);
  thread.close();
  expect((await settled).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
});
