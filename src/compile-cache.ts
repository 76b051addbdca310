import * as nodeModule from 'node:module';
import { fileURLToPath } from 'node:url';

/**
 * Keeps compiled code beside the build, where Node can (from 22.1 on) and the folder can be written: later starts are
 * faster. It is not kept in the temporary directory, since every user of the machine can write there.
 */
export function enableCompileCache(): void {
  const { enableCompileCache: enable } = nodeModule as { enableCompileCache?: (folder: string) => unknown };
  enable?.(fileURLToPath(new URL('compile-cache', import.meta.url)));
}
