#!/usr/bin/env node
import { enableCompileCache } from './compile-cache.ts';
import { loadLean } from './lean-start.ts';

// What `weir` runs. A service that is started without flags, as in a container, does not wait for the whole command
// line to load.
enableCompileCache();
const [command = 'serve', ...rest] = process.argv.slice(2);
if (command === 'serve' && rest.length === 0) {
  const restore = loadLean(process.execArgv.length > 0 || process.env.NODE_OPTIONS !== undefined);
  const { runService } = await import('./commands/serve.ts');
  restore();
  await runService(process.env, undefined, Date.now);
} else {
  await import('./main.ts');
}
