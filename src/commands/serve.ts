import cluster from 'node:cluster';
import type { Clock } from '../clock.ts';
import { allocateYoung } from '../no-pretenuring.ts';
import { fail, onSignal, version } from '../process.ts';
import { serveAsWorker } from '../serve/worker.ts';
import { serve } from '../serve.ts';
import type { Environment } from '../settings/near-misses.ts';
import { InvalidSettings } from '../settings/values.ts';
import { readSettings } from '../settings.ts';
import { CannotStart } from '../start-up.ts';

/**
 * Runs the service until a signal, or until it fails.
 *
 * @param rules  path of the rules, instead of what the environment says
 */
export async function runService(env: Environment, rules: string | undefined, clock: Clock): Promise<void> {
  try {
    const read = await readSettings(env);
    const settings = rules === undefined ? read : { ...read, rules: { ...read.rules, origin: { path: rules } } };
    if (cluster.worker) {
      const close = await serveAsWorker(settings, clock, cluster.worker);
      allocateYoung();
      return onSignal(() => close());
    }
    const service = await serve(settings, clock, version);
    allocateYoung();
    onSignal(service.close);
    console.log(service.banner);
    service.failed.then(({ message }) => {
      fail(message);
      return service.close(message);
    });
  } catch (error) {
    if (!(error instanceof InvalidSettings || error instanceof CannotStart)) throw error;
    fail(error.message);
  }
}
