/**
 * Preloaded into the service under attack (`node --import`): measures its memory from inside, without a change to its source.
 *
 * A thread asks the main thread for a sample every 100 ms, through V8's inspector. That interrupts JavaScript between two
 * instructions, so that samples are taken while the event loop stands still as well; only native code delays them.
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
    execArgv: [], // else it would preload this file as well
  });
  thread.unref();
  thread.on('message', async (command) => {
    if (command === 'reset') return delay.reset();
    globalThis.gc();
    await nextTurn(); // what finalizers let go
    globalThis.gc();
    thread.postMessage('collected');
  });
}
