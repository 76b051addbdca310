import { execFile } from 'node:child_process';
import { rmSync } from 'node:fs';
import { promisify } from 'node:util';
import { bundleProtocol, type FileChange } from './bundle.ts';
import type { ChildOptions, ChildResult } from './child.ts';

/** Explores a protocol in a process of its own. @param changed  a change of the code, to see whether it is found */
export async function runProtocol(
  protocol: string,
  options: Partial<ChildOptions>,
  changed?: FileChange,
): Promise<ChildResult> {
  const bundle = await bundleProtocol(protocol, changed);
  try {
    const flags = [
      '--allow-natives-syntax',
      '--max-old-space-size=8192',
      '--max-semi-space-size=64',
      '--stack-size=4000',
    ];
    const { stdout } = await promisify(execFile)(process.execPath, [...flags, bundle, JSON.stringify(options)], {
      maxBuffer: 1 << 26,
    });
    return JSON.parse(stdout) as ChildResult;
  } finally {
    if (changed) rmSync(bundle);
  }
}

/** Runs tasks, a few at a time; results are in the order of the tasks. */
export async function inParallel<T, R>(
  tasks: readonly T[],
  count: number,
  run: (task: T) => Promise<R>,
): Promise<readonly R[]> {
  const results: R[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let at = next++; at < tasks.length; at = next++) results[at] = await run(tasks[at] as T); // in range
  };
  await Promise.all(Array.from({ length: count }, work));
  return results;
}
