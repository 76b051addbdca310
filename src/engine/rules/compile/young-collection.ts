import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

type Collect = (how: { readonly type: 'minor' }) => void;

let collect: Collect | undefined;

/**
 * Makes V8 collect its young generation, which takes time proportional to the part in use. By itself, V8 does so after
 * 16 MiB of allocations, and then copies thousands of rules in one pause.
 */
export function collectYoung(): void {
  collect ??= openCollect();
  collect({ type: 'minor' });
}

/** V8 offers `gc` only in contexts that are created while the flag is set. */
function openCollect(): Collect {
  setFlagsFromString('--expose-gc');
  const opened = runInNewContext('globalThis.gc') as Collect | undefined; // defined by the flag
  setFlagsFromString('--no-expose-gc');
  return opened ?? ((): void => {});
}
