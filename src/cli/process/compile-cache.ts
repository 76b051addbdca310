import * as nodeModule from 'node:module';
import { fileURLToPath } from 'node:url';

/**
 * Caches compiled code beside the build, if Node can (from 22.1 on) and the folder is writable, so that later starts
 * are faster. The temporary directory is not used, since every user of the machine can write there.
 */
export function enableCompileCache(): void {
  const { enableCompileCache: enable } = nodeModule as { enableCompileCache?: (folder: string) => unknown };
  enable?.(fileURLToPath(new URL('compile-cache', import.meta.url)));
}
