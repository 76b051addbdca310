import cluster from 'node:cluster';
import type { Clock } from '../../base/clock.ts';
import { CannotStart } from '../../serve/parts/start-up.ts';
import { serve } from '../../serve/serve.ts';
import { serveAsWorker } from '../../serve/worker.ts';
import type { Environment } from '../../settings/near-misses.ts';
import { readSettings } from '../../settings/settings.ts';
import { InvalidSettings } from '../../settings/values.ts';
import { collectCheaply } from '../process/garbage-collection.ts';
import { fail, onSignal, version } from '../process/process.ts';

/** The parts of the starting program that the service uses. */
interface ServiceSurroundings {
  readonly clock: Clock;
  /** Called once the service handles signals itself. */
  readonly onOpen: () => void;
}

/**
 * Runs the service until a signal, or until it fails.
 *
 * @param rules  path of the rules, overriding the environment
 */
export async function runService(
  env: Environment,
  rules: string | undefined,
  { clock, onOpen }: ServiceSurroundings,
): Promise<void> {
  try {
    const read = await readSettings(env);
    const settings = rules === undefined ? read : { ...read, rules: { ...read.rules, origin: { path: rules } } };
    if (cluster.worker) {
      const close = await serveAsWorker(settings, clock, cluster.worker);
      collectCheaply();
      onSignal(() => close());
      return onOpen();
    }
    const service = await serve(settings, clock, version);
    collectCheaply();
    onSignal(service.close);
    onOpen();
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
