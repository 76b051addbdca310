import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void; // V8's, by the flag above

/** Bytes in use after garbage collection, on the heap and outside of it. */
export function heapBytes(): number {
  collectGarbage();
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** The same, once no more garbage of earlier work is found. */
export async function restingHeapBytes(): Promise<number> {
  for (let before = heapBytes(); ; ) {
    await sleep(50);
    const bytes = heapBytes();
    if (Math.abs(before - bytes) < RESTING_BYTES) return bytes;
    before = bytes;
  }
}
const RESTING_BYTES = 100_000;

/** Bytes in use by buffers: unlike the heap, they do not depend on the process's earlier work. */
export function bufferBytes(): number {
  collectGarbage();
  collectGarbage();
  return process.memoryUsage().arrayBuffers;
}
