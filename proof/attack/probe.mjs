/**
 * Preloaded into the service under attack (`node --import`): measures its memory without changes to its source.
 *
 * A thread requests a sample from the main thread every 100 ms, through V8's inspector, which interrupts JavaScript
 * between two instructions. So a blocked event loop does not delay samples; only native code does.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { isMainThread, Worker } from 'node:worker_threads';

const INTERVAL_MS = 100;
const DELAY_RESOLUTION_MS = 10;
const NS_PER_MS = 1e6;

if (isMainThread) watch();

function watch() {
  const { memoryUsage } = process;
  const delay = monitorEventLoopDelay({ resolution: DELAY_RESOLUTION_MS });
  delay.enable();
  globalThis.attackProbe = () => {
    const { heapUsed, external, arrayBuffers, rss } = memoryUsage();
    const stallMs = Math.max(0, delay.max / NS_PER_MS - DELAY_RESOLUTION_MS);
    return JSON.stringify({ heapUsed, external, arrayBuffers, rss, stallMs });
  };
  const thread = new Worker(new URL('./probe-thread.mjs', import.meta.url), {
    workerData: { intervalMs: INTERVAL_MS },
    execArgv: [], // otherwise the thread would preload this file, too
  });
  thread.unref();
  thread.on('message', async (command) => {
    if (command === 'reset') return delay.reset();
    globalThis.gc();
    await nextTurn(); // memory that finalizers release
    globalThis.gc();
    thread.postMessage('collected');
  });
}
