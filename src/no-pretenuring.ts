import * as nodeModule from 'node:module';
import { setFlagsFromString } from 'node:v8';

/**
 * Has V8 allocate every object in its young generation. By itself it allocates what a line of code makes in the old
 * generation once most of what that line has made survived a while, and it never takes that back. What a decision makes
 * survives whenever callers wait for Redis, or are few; made in the old generation, it must then be marked, and it
 * keeps alive whatever it refers to.
 *
 * To be called when modules are loaded: V8 takes back only code that was compiled with the same flags, so that what is
 * compiled from now on is of no use to the next start.
 */
export function allocateYoung(): void {
  const { flushCompileCache } = nodeModule as { flushCompileCache?: () => void }; // from Node 22.10 on
  flushCompileCache?.();
  setFlagsFromString('--no-allocation-site-pretenuring');
}
