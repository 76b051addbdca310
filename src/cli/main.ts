import cluster from 'node:cluster';
import { startControl } from '../serve/supervisor/fork-control.ts';
import { endStartOnSignals, fail, version } from './process/process.ts';
import { createProgram } from './program.ts';

const program = createProgram({
  clock: Date.now,
  env: process.env,
  cwd: process.cwd(),
  isTerminal: process.stdout.isTTY,
  print(text) {
    endWithReader();
    console.log(text);
  },
  fail,
  exitWith(code) {
    process.exitCode = code;
  },
  input: process.stdin,
  write: writeOutput,
  showProgress: process.stderr.isTTY ? (text) => void process.stderr.write(text) : undefined,
  async serve(env, rules) {
    const onOpen = endStartOnSignals();
    const control = cluster.isWorker ? undefined : startControl({ version, env, rules });
    const { runService } = await import('./commands/serve.ts');
    await runService(env, rules, { clock: Date.now, control, onOpen });
  },
});
await program.parseAsync();

/** Ends the process without an error if the reader of its output has gone: `weir get | head`. */
function endWithReader(): void {
  if (process.stdout.listenerCount('error') === 0) process.stdout.on('error', () => process.exit());
}

/** Resolves when more can be written. */
function writeOutput(text: string): Promise<void> {
  endWithReader();
  return new Promise((resolve) => void process.stdout.write(text, () => resolve()));
}
