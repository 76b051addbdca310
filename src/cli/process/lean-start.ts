import * as nodeModule from 'node:module';
import { setFlagsFromString } from 'node:v8';

/**
 * Makes V8 save memory while modules are loaded: the hot code is then Node's loader, which is not worth the optimizing
 * compiler, and most allocated objects stay, which is not worth a larger young generation. Does nothing if V8 was given
 * flags, or if Node caches compiled code: V8 reuses only code that was compiled with the same flags.
 *
 * @param hasFlags  Node was given flags, which may be for V8
 * @returns  restores V8's defaults; call it when the modules are loaded
 */
export function loadLean(hasFlags: boolean): () => void {
  if (hasFlags || 'enableCompileCache' in nodeModule) return () => {};
  setFlagsFromString('--no-opt');
  setFlagsFromString('--semi-space-growth-factor=1');
  return () => {
    setFlagsFromString('--opt');
    setFlagsFromString('--semi-space-growth-factor=2');
  };
}
