import * as nodeModule from 'node:module';
import { setFlagsFromString } from 'node:v8';

/**
 * Has V8 save memory while modules are loaded: what is hot then is Node's loader, which is not worth the optimizing
 * compiler, and most of what is allocated stays, which is not worth a larger young generation. Does nothing where V8
 * was given flags, or where Node keeps compiled code: V8 takes back only code that was compiled with the same flags.
 *
 * @param hasFlags  Node was given flags, which may be V8's
 * @returns  to be called when they are loaded: restores V8's defaults
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
