#!/usr/bin/env node
import { enableCompileCache } from './process/compile-cache.ts';
import { loadLean } from './process/lean-start.ts';
import { endStartOnSignals } from './process/process.ts';

// The entry of `weir`. A service that is started without flags, as in a container, does not load the whole command line
// first.
enableCompileCache();
const [command = 'serve', ...rest] = process.argv.slice(2);
if (command === 'serve' || command.startsWith('-')) endStartOnSignals(); // before anything slow
if (command === 'serve' && rest.length === 0) {
  const restore = loadLean(process.execArgv.length > 0 || process.env.NODE_OPTIONS !== undefined);
  const { runService } = await import('./commands/serve.ts');
  restore();
  await runService(process.env, undefined, { clock: Date.now, onOpen: endStartOnSignals() });
} else {
  await import('./main.ts');
}
