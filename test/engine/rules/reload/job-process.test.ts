import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { type JobProcess, JobTookTooLong, openJobProcess } from '../../../../src/engine/rules/reload/job-process.ts';
import { until } from '../../../helpers/until.ts';

const MODULE = fileURLToPath(new URL('../../../../src/engine/rules/reload/job-process.ts', import.meta.url));
const CHECKPOINT = fileURLToPath(new URL('../../../../src/engine/rules/read/checkpoint.ts', import.meta.url));

/** The entry point of a process: the job `hang` takes longer than any test. */
const ENTRY = `import { writeSync } from 'node:fs';
import { checkpoint } from ${JSON.stringify(CHECKPOINT)};
import { serveJobs } from ${JSON.stringify(MODULE)};
serveJobs(process, (options) => (job) => {
  if (job === 'throw') throw new Error('no such job');
  if (job === 'exit') process.exit(3);
  if (job === 'kill') process.kill(process.pid, 'SIGKILL');
  if (job === 'hang') for (const start = Date.now(); Date.now() - start < 600_000; );
  if (job === 'work') for (;;) checkpoint();
  if (job === 'pid') return process.pid;
  if (job === 'abort') {
    writeSync(2, 'FATAL ERROR: not possible\\n' + ' 1: a function with a long name\\n'.repeat(200));
    process.abort();
  }
  if (job === 'fill') for (const all = []; ; ) all.push(new Array(1_000_000).fill({}));
  if (job === 'node options') return String(process.env.NODE_OPTIONS);
  return options.did + job;
});`;

/** Opens a process, prints its id or the job's error, and optionally stays while the process works or is idle. */
const PARENT = `import { openJobProcess } from ${JSON.stringify(MODULE)};
import { pathToFileURL } from 'node:url';
const jobs = openJobProcess(pathToFileURL(process.argv[2]), {});
const timer = setInterval(() => {}, 1_000);
const job = process.argv[3] === 'fill' ? 'fill' : 'pid';
console.log(await jobs.do(job).catch((error) => error.message));
if (process.argv[3] === 'works') void jobs.do('work');
else if (process.argv[3] !== 'stays') clearInterval(timer);`;

let folder: string;
let entry: string;
let parent: string;
let jobs: JobProcess<string, unknown>;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'job-process-'));
  [entry, parent] = [join(folder, 'entry.mjs'), join(folder, 'parent.mjs')];
  const bundle = (contents: string, outfile: string) =>
    build({ stdin: { contents, resolveDir: folder }, outfile, bundle: true, format: 'esm', platform: 'node' });
  await Promise.all([bundle(ENTRY, entry), bundle(PARENT, parent)]);
  jobs = openJobProcess(pathToFileURL(entry), { did: 'did ' });
});
afterAll(() => {
  jobs.close();
  rmSync(folder, { recursive: true });
});

/** Whether a process runs; an ended one stays in `/proc` until its parent waits for it. */
const isRunning = (pid: number): boolean => {
  const path = `/proc/${pid}/stat`;
  return existsSync(path) && !/^\d+ \(.*\) [ZX]/.test(readFileSync(path, 'utf8'));
};

test('jobs run one after another, with the options of the process', async () => {
  expect(await Promise.all([jobs.do('a'), jobs.do('b')])).toEqual(['did a', 'did b']);
});

test.each([
  ['throw', 'no such job'],
  ['exit', 'the process that checks rules ended with exit code 3'],
  ['kill', 'the process that checks rules ended by SIGKILL'],
])('a job that makes the process fail (%s) is rejected, and the next one runs in a new process', async (job, why) => {
  const failed = await jobs.do('pid');
  await expect(jobs.do(job)).rejects.toThrow(why);
  expect(await jobs.do('c')).toBe('did c');
  expect(await jobs.do('pid')).not.toBe(failed);
});

test("a job that fills the heap is rejected with Node's error message", async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['--max-old-space-size=64', parent, entry, 'fill']);
  expect(stdout).toMatch(/^the process that checks rules ended by SIG\w+: .*heap out of memory\n$/);
});

test('the reason why a process ended is found above a long stack trace', async () => {
  const why = 'the process that checks rules ended by SIGABRT: FATAL ERROR: not possible';
  await expect(jobs.do('abort')).rejects.toThrow(why);
});

test("the process has none of the service's Node options, but a heap of the same size", async () => {
  const before = process.env.NODE_OPTIONS;
  process.env.NODE_OPTIONS = '--no-deprecation';
  const open = openJobProcess<string, unknown>(pathToFileURL(entry), {});
  expect(await open.do('node options')).toBe('undefined');
  open.close();
  if (before === undefined) delete process.env.NODE_OPTIONS;
  else process.env.NODE_OPTIONS = before;
});

test('a process that cannot load its module is reported with the reason', async () => {
  const open = openJobProcess<string, unknown>(pathToFileURL(join(folder, 'missing.mjs')), {});
  await expect(open.do('a')).rejects.toThrow(
    /^the process that checks rules ended with exit code 1: Error: Cannot find module/,
  );
});

test('the process survives when a terminal or systemd signals all processes of the service', async () => {
  const pid = Number(await jobs.do('pid'));
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.kill(pid, signal);
  expect(await jobs.do('pid')).toBe(pid);
});

test('closing rejects the running and the waiting jobs, and ends the process', async () => {
  const closed = openJobProcess<string, unknown>(pathToFileURL(entry), { did: 'did ' });
  const pid = Number(await closed.do('pid'));
  const settled = Promise.allSettled([closed.do('hang'), closed.do('d')]);
  await new Promise(setImmediate);
  closed.close();
  expect((await settled).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  await until('the process has ended', () => !isRunning(pid));
});

test('the process does not keep its parent from exiting, and ends with it', async () => {
  const pid = Number(execFileSync(process.execPath, [parent, entry]));
  await until('the process has ended', () => !isRunning(pid));
});

test('a job that takes too long is rejected, even if its process hangs, and the next one runs in a new process', async () => {
  const limited = openJobProcess<string, unknown>(pathToFileURL(entry), { did: 'did ' }, 3_000);
  /** The answer to a job, which may take too long on a busy machine as well. */
  const answerOf = async (job: string): Promise<unknown> => {
    let answer: unknown;
    await until(`the answer to ${job}`, async () => {
      answer = await limited.do(job).catch((error: unknown) => expect(error).toBeInstanceOf(JobTookTooLong));
      return answer !== undefined;
    });
    return answer;
  };
  const first = Number(await answerOf('pid'));
  const why = 'the process that checks rules did not finish within 3 s, and was killed';
  await expect(limited.do('hang')).rejects.toThrow(new JobTookTooLong(why));
  await until('the process has ended', () => !isRunning(first));
  const second = Number(await answerOf('pid'));
  process.kill(second, 'SIGSTOP');
  await expect(limited.do('a')).rejects.toThrow(JobTookTooLong);
  await until('the process has ended', () => !isRunning(second));
  expect(await answerOf('b')).toBe('did b');
  limited.close();
});

test.each([
  ['', 'stays'],
  [' in the middle of a job', 'works'],
])('the process ends if its parent is killed%s', async (_, what) => {
  const started = spawn(process.execPath, [parent, entry, what], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [printed] = await once(started.stdout, 'data');
  const pid = Number(String(printed));
  expect(isRunning(pid)).toBe(true);
  started.kill('SIGKILL');
  await until('the process has ended', () => !isRunning(pid));
});
