import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';

export interface RunOptions {
  readonly cwd?: string;
  /** The program is killed after this time. */
  readonly limitMs: number;
  /** Copies the program's stderr, and prints the elapsed time. */
  readonly showsProgress?: boolean;
}

const PROGRESS_INTERVAL_MS = 10_000;
/** The lines of a failed program's stderr that an error shows. */
const SHOWN_LINES = 5;
const MS_PER_S = 1_000;

/**
 * Runs a program to its end. @returns its output @throws  it failed or took too long; the message has the end of its
 * stderr
 */
export async function run(program: string, args: readonly string[], options: RunOptions): Promise<string> {
  const { cwd = process.cwd(), limitMs, showsProgress = false } = options;
  const child = spawn(program, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'], timeout: limitMs });
  const startMs = performance.now();
  const elapsedS = () => Math.round((performance.now() - startMs) / MS_PER_S);
  const ticker = setInterval(() => {
    if (showsProgress) console.error(`  … ${program} ${args[0]}, ${elapsedS()} s`);
  }, PROGRESS_INTERVAL_MS);
  if (showsProgress) child.stderr.on('data', (chunk: Buffer) => process.stderr.write(chunk));
  const ended = new Promise<string | undefined>((resolve) => {
    child.once('error', ({ message }) => resolve(message)); // the program could not be started
    child.once('close', (code, signal) => resolve(code === 0 ? undefined : reason(code, signal, elapsedS())));
  });
  try {
    const [failure, stdout, stderr] = await Promise.all([ended, text(child.stdout), text(child.stderr)]);
    if (failure === undefined) return stdout;
    const last = stderr.trimEnd().split('\n').slice(-SHOWN_LINES).join('\n');
    throw new Error(`${[program, ...args].join(' ')}: ${failure}\n${last}`.trimEnd());
  } finally {
    clearInterval(ticker);
  }
}

const reason = (code: number | null, signal: NodeJS.Signals | null, elapsedS: number): string =>
  signal === null ? `exit code ${code}` : `ended by ${signal} after ${elapsedS} s`;
