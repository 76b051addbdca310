import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

type Collect = (how: { readonly type: 'minor' }) => void;

let collect: Collect | undefined;

/**
 * Has V8 collect its young generation, in a time proportional to what of it is in use. By itself V8 does so once
 * 16 MiB have gathered, and then copies thousands of rules in one pause.
 */
export function collectYoung(): void {
  collect ??= openCollect();
  collect({ type: 'minor' });
}

/** V8 offers it only to contexts that are made while the flag is set. */
function openCollect(): Collect {
  setFlagsFromString('--expose-gc');
  const opened = runInNewContext('globalThis.gc') as Collect | undefined; // V8's, by the flag
  setFlagsFromString('--no-expose-gc');
  return opened ?? ((): void => {});
}
