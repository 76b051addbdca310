import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Much longer than the second of Envoy Gateway's probes, since the machine may be busy. A wrong answer fails at once.
 */
const TIMEOUT_MS = 10_000;
const INTERVAL_MS = 100;

const healthcheck = (): Promise<string> =>
  fetch('http://127.0.0.1:8080/healthcheck', { signal: AbortSignal.timeout(TIMEOUT_MS) }).then(
    ({ status }) => String(status),
    (error: Error) => error.message,
  );

/** Startup probe: resolves at the first 200. */
export async function untilHealthy(withinMs = 60_000): Promise<void> {
  const endMs = performance.now() + withinMs;
  for (let last = ''; last !== '200'; await sleep(INTERVAL_MS)) {
    if (performance.now() > endMs) throw new Error(`not healthy after ${withinMs} ms: ${last}`);
    last = await healthcheck();
  }
}

/**
 * Readiness probe, fifty times as often as Envoy Gateway's, which permits no failure. Records answers other than 200.
 */
export function startProbing(): { stop(): Promise<{ readonly probes: number; readonly failures: readonly string[] }> } {
  const failures: string[] = [];
  let probes = 0;
  let isOver = false;
  const probing = (async () => {
    for (; !isOver; await sleep(INTERVAL_MS)) {
      const answer = await healthcheck();
      probes++;
      if (answer !== '200') failures.push(answer);
    }
  })();
  return {
    async stop() {
      isOver = true;
      await probing;
      return { probes, failures };
    },
  };
}
