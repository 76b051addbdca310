import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Adds a step to take at the end of a run. */
export type OnEnd = (step: () => unknown) => void;

/** Runs, then takes the steps that were added meanwhile, the last one first, also after an error. */
export async function withCleanup<T>(run: (onEnd: OnEnd) => Promise<T>): Promise<T> {
  const steps: (() => unknown)[] = [];
  try {
    return await run((step) => steps.push(step));
  } finally {
    for (const step of steps.reverse()) await step();
  }
}

/** A new empty folder, removed at the end. */
export function temporaryFolder(name: string, onEnd: OnEnd): string {
  const folder = mkdtempSync(join(tmpdir(), `${name}-`));
  onEnd(() => rmSync(folder, { recursive: true }));
  return folder;
}
