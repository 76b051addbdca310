import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Adds a step to take at the end of a run. */
export type OnEnd = (step: () => unknown) => void;

/** Longer than any step takes: processes are killed after half a minute. */
const STEP_TIMEOUT_MS = 100_000;

/**
 * Runs, then takes the steps that were added meanwhile, the last one first, also after an error. A step that fails or
 * hangs hides neither the error of the run nor the other steps.
 *
 * @throws  the error of the run or of a step; AggregateError: there are several
 */
export async function withCleanup<T>(
  run: (onEnd: OnEnd) => Promise<T>,
  stepTimeoutMs: number = STEP_TIMEOUT_MS,
): Promise<T> {
  const steps: (() => unknown)[] = [];
  const problems: unknown[] = [];
  const result = await run((step) => steps.push(step)).catch((error: unknown) => void problems.push(error));
  for (const step of steps.reverse())
    await within(stepTimeoutMs, step).catch((error: unknown) => void problems.push(error));
  if (problems.length > 1) throw new AggregateError(problems, problems.map(String).join('\n'));
  if (problems.length === 1) throw problems[0];
  return result as T; // the run has no error
}

/** @throws  the step has failed, or not ended in time */
async function within(timeoutMs: number, step: () => unknown): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const message = `a step of the clean-up has not ended within ${timeoutMs} ms: ${step}`;
    timer = setTimeout(() => reject(new Error(message)), timeoutMs);
  });
  try {
    await Promise.race([(async () => step())(), late]);
  } finally {
    clearTimeout(timer);
  }
}

/** A new empty folder, removed at the end. */
export function temporaryFolder(name: string, onEnd: OnEnd): string {
  const folder = mkdtempSync(join(tmpdir(), `${name}-`));
  onEnd(() => rmSync(folder, { recursive: true }));
  return folder;
}
