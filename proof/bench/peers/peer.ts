import { accessSync, constants } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Subject } from '../subjects.ts';

/** Another project's service that Weir is compared with. */
export interface Peer {
  readonly name: string;
  /** The environment variable that names its program. */
  readonly variable: string;
  /** Where its program is if the variable is not set. */
  readonly cached: string;
  subjectOf(binary: string): Subject;
  /** Builds the program at `cached`. @throws  it cannot be built; the message has the reason */
  build(): Promise<void>;
  /** The version that the program was built from. */
  versionOf(binary: string): Promise<string>;
}

const CACHE = fileURLToPath(new URL('../../../.cache/peers', import.meta.url));

export const cachedAs = (name: string): string => join(CACHE, name);

/**
 * The peer's program: the one that its variable names, else the cached one if it exists.
 *
 * @throws  the variable names something that cannot be executed
 */
export function findProgram(
  { variable, cached }: Pick<Peer, 'variable' | 'cached'>,
  env: Readonly<Record<string, string | undefined>>,
): string | undefined {
  const named = env[variable];
  if (!named) return isExecutable(cached) ? cached : undefined;
  if (!isExecutable(named)) throw new Error(`${variable} must be the path of a program, got '${named}'`);
  return resolve(named);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
