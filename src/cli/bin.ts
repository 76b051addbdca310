#!/usr/bin/env node
import cluster from 'node:cluster';
import * as nodeModule from 'node:module';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { startControl } from '../serve/supervisor/fork-control.ts';
import { endStartOnSignals, version } from './process/process.ts';

// The entry of `weir`. A service that is started without flags, as in a container, does not load the whole command line
// first.
enableCompileCache();
const [command = 'serve', ...rest] = process.argv.slice(2);
if (command === 'serve' || command.startsWith('-')) endStartOnSignals(); // before any slow work
if (command === 'serve' && rest.length === 0) {
  const control = cluster.isWorker ? undefined : startControl({ version, env: process.env, rules: undefined }); // it loads its modules meanwhile
  const restore = loadLean(process.execArgv.length > 0 || process.env.NODE_OPTIONS !== undefined);
  const { runService } = await import('./commands/serve.ts');
  restore();
  await runService(process.env, undefined, { clock: Date.now, control, onOpen: endStartOnSignals() });
} else {
  await import('./main.ts');
}

/**
 * Caches compiled code beside the build for faster starts, if Node can (from 22.1) and the folder is writable. The
 * temporary directory is not used, since every user of the machine can write there.
 */
function enableCompileCache(): void {
  const { enableCompileCache: enable } = nodeModule as { enableCompileCache?: (folder: string) => unknown };
  enable?.(fileURLToPath(new URL('compile-cache', import.meta.url)));
}

/**
 * Makes V8 save memory while modules are loaded. The hot code is then Node's loader, which is not worth the optimizing
 * compiler, and most allocated objects stay, which is not worth a larger young generation. Does nothing if V8 was given
 * flags, or if Node caches compiled code, which V8 reuses only under the flags it was compiled with.
 *
 * @param hasFlags  whether Node was given flags, which may be for V8
 * @returns  a function that restores V8's defaults, to be called when the modules are loaded
 */
function loadLean(hasFlags: boolean): () => void {
  if (hasFlags || 'enableCompileCache' in nodeModule) return () => {};
  setFlagsFromString('--no-opt');
  setFlagsFromString('--semi-space-growth-factor=1');
  return () => {
    setFlagsFromString('--opt');
    setFlagsFromString('--semi-space-growth-factor=2');
  };
}
