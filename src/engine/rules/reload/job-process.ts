import { type ChildProcess, fork } from 'node:child_process';
import type { Socket } from 'node:net';
import { env } from 'node:process';
import { fileURLToPath } from 'node:url';
import { getHeapStatistics } from 'node:v8';
import { inTurn } from '../../../base/in-turn.ts';
import { atCheckpoints } from '../read/checkpoint.ts';

/** A process that runs jobs one after another, off the event loop of this one. */
export interface JobProcess<J, R> {
  /** Rejects if the process fails; the next job gets a new one. */
  do(job: J): Promise<R>;
  close(): void;
}

/** An idle process ends after this time, which is longer than the wait before invalid rules are retried. */
const IDLE_MS = 40_000;

/** A job that takes longer hangs: this is a hundred times what the largest rules take. */
const JOB_LIMIT_MS = 60_000;
const MS_PER_S = 1_000;

/** The process was killed because a job took too long. */
export class JobTookTooLong extends Error {
  override readonly name = 'JobTookTooLong';
}

/**
 * Node's flags for such a process.
 *
 * --single-threaded       V8 has no helper threads, which together would take all processors from the processes that
 *                         answer requests
 * --no-opt                code is not optimized: that takes milliseconds at a time, which no sleep can interrupt, and
 *                         about as much time as it saves before the process ends
 * --max-semi-space-size   in MiB: many short garbage collections instead of a few long ones
 */
const FLAGS = ['--single-threaded', '--no-opt', '--max-semi-space-size=1'];
const BYTES_PER_MIB = 2 ** 20;

/** Characters kept of the process's output: Node prints the reason for its end above a long stack trace. */
const KEPT_OUTPUT = 16_384;

/** A message to the process: its options first, then jobs. */
type ToProcess<O, J> = { readonly options: O } | { readonly job: J };
type FromProcess<R> = { readonly result: R } | { readonly failed: string };

interface Pending<R> {
  resolve(result: R): void;
  reject(error: Error): void;
}

/**
 * @param entry    the module that the process runs: it calls `serveJobs`
 * @param options  for the module; `structuredClone` must be able to copy options, jobs and results
 * @param limitMs  a job that takes longer is rejected with JobTookTooLong, and its process is killed
 */
export function openJobProcess<J, R>(entry: URL, options: unknown, limitMs = JOB_LIMIT_MS): JobProcess<J, R> {
  let child: ChildProcess | undefined;
  let pending: Pending<R> | undefined;
  const next = inTurn();
  let idle: NodeJS.Timeout | undefined;
  let isClosed = false;

  const send = (to: ChildProcess, message: ToProcess<unknown, J>): void => {
    if (to.connected) to.send(message); // else starting it failed, which is reported next
  };
  const start = (): ChildProcess => {
    const heapMib = Math.ceil(getHeapStatistics().heap_size_limit / BYTES_PER_MIB);
    const started = fork(fileURLToPath(entry), {
      execArgv: [...FLAGS, `--max-old-space-size=${heapMib}`],
      env: { ...env, NODE_OPTIONS: undefined }, // the options are for the service: debugging, watching
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    let output = '';
    started.stderr?.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-KEPT_OUTPUT);
    });
    const failed = (error: Error): void => {
      if (child !== started) return; // it was killed
      child = undefined;
      started.kill('SIGKILL');
      pending?.reject(error);
    };
    started.on('message', (answer: FromProcess<R>) => {
      if ('failed' in answer) failed(new Error(answer.failed));
      else if (child === started) pending?.resolve(answer.result);
    });
    started.on('error', failed).on('close', (code, signal) => failed(new Error(endOf(code, signal, output))));
    started.unref(); // neither it nor its channels keep this process running
    started.channel?.unref();
    (started.stderr as Socket | null)?.unref(); // it is a pipe
    return started;
  };
  const end = (reason: Error = new Error(CLOSED)): void => {
    clearTimeout(idle);
    child?.kill('SIGKILL');
    child = undefined;
    pending?.reject(reason);
  };
  const run = async (job: J): Promise<R> => {
    clearTimeout(idle);
    if (isClosed) throw new Error(CLOSED);
    const isNew = child === undefined;
    child ??= start();
    const current = child;
    const limit = setTimeout(() => end(new JobTookTooLong(tookTooLong(limitMs))), limitMs).unref();
    try {
      return await new Promise<R>((resolve, reject) => {
        pending = { resolve, reject };
        if (isNew) send(current, { options });
        send(current, { job });
      });
    } finally {
      clearTimeout(limit);
      pending = undefined;
      idle = setTimeout(() => end(), IDLE_MS).unref();
    }
  };

  return {
    do: (job) => next(() => run(job)),
    close() {
      isClosed = true;
      end();
    },
  };
}

const CLOSED = 'the process that checks rules was closed';

const tookTooLong = (limitMs: number): string =>
  `the process that checks rules did not finish within ${limitMs / MS_PER_S} s, and was killed`;

function endOf(code: number | null, signal: NodeJS.Signals | null, output: string): string {
  const how = signal === null ? `with exit code ${code}` : `by ${signal}`;
  const reason = output.split('\n').find((line) => /error|bad option/i.test(line));
  return `the process that checks rules ended ${how}${reason === undefined ? '' : `: ${reason.trim()}`}`;
}

/** Checkpoints between two reads of the parent's id, which are system calls. */
const CHECKPOINTS_A_READ = 256;

/**
 * Ends this process if its parent is gone. A busy thread does not see 'disconnect', but it calls checkpoints; the
 * system assigns another parent to orphans.
 */
function endAsOrphan(own: NodeJS.Process): () => void {
  const parent = own.ppid;
  let calls = 0;
  return () => {
    if (++calls % CHECKPOINTS_A_READ === 0 && own.ppid !== parent) own.exit();
  };
}

/** Runs the jobs that a process receives, until its parent ends. */
export function serveJobs<O, J, R>(own: NodeJS.Process, open: (options: O) => (job: J) => R): void {
  // a terminal, and systemd by default, send these to all processes of the service, which may still need this one
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) own.on(signal, () => {});
  atCheckpoints(endAsOrphan(own));
  let doJob: ((job: J) => R) | undefined;
  const answer = (message: ToProcess<O, J>): FromProcess<R> | undefined => {
    try {
      if ('options' in message) doJob = open(message.options);
      else if (doJob) return { result: doJob(message.job) };
      return undefined;
    } catch (error) {
      return { failed: error instanceof Error ? error.message : String(error) };
    }
  };
  own.on('message', (message: ToProcess<O, J>) => {
    const answered = answer(message);
    if (answered) own.send?.(answered);
  });
  own.once('disconnect', () => own.exit());
}
