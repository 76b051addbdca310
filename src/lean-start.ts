import { setFlagsFromString } from 'node:v8';

/**
 * Has V8 save memory while modules are loaded: what is hot then is Node's loader, which is not worth the optimizing
 * compiler, and most of what is allocated stays, which is not worth a larger young generation.
 *
 * @returns  to be called when they are loaded: restores V8's defaults
 */
export function loadLean(): () => void {
  setFlagsFromString('--no-opt');
  setFlagsFromString('--semi-space-growth-factor=1');
  return () => {
    setFlagsFromString('--opt');
    setFlagsFromString('--semi-space-growth-factor=2');
  };
}
