import type { ChildProcess } from 'node:child_process';
import cluster, { type Worker } from 'node:cluster';
import type { Clock } from '../../base/clock.ts';
import { serveAsWorker } from '../../serve/decider/worker.ts';
import { CannotStart } from '../../serve/parts/start-up.ts';
import { serve } from '../../serve/supervisor/serve.ts';
import type { Environment } from '../../settings/near-misses.ts';
import { readSettings } from '../../settings/settings.ts';
import { InvalidSettings } from '../../settings/values.ts';
import { collectCheaply } from '../process/garbage-collection.ts';
import { endWithin, fail, onSignal, printOpen, version } from '../process/process.ts';

/** The parts of the starting program that the service uses. */
interface ServiceSurroundings {
  readonly clock: Clock;
  /** Control process, started before this module was loaded; undefined in a worker. */
  readonly control: ChildProcess | undefined;
  /** Called when the service handles signals itself. */
  readonly onOpen: () => void;
}

/** A service that can never work ends within this time: health never reported it as serving, and nothing is drained. */
const FAILURE_MS = 1_000;

/**
 * Runs the service until a signal, or until it fails.
 *
 * @param rules  path of the rules, which overrides the environment
 */
export async function runService(
  env: Environment,
  rules: string | undefined,
  { clock, control, onOpen }: ServiceSurroundings,
): Promise<void> {
  try {
    const settings = await readSettings(env, rules);
    if (!control) {
      const close = await serveAsWorker(settings, clock, cluster.worker as Worker); // has no control process
      collectCheaply();
      onSignal(() => close());
      return onOpen();
    }
    const service = await serve(settings, { clock, control, source: { version, env, rules } });
    collectCheaply();
    onSignal(service.close);
    onOpen();
    printOpen(service, settings.log.format);
    service.failed.then(({ message }) => {
      fail(message, env);
      endWithin(FAILURE_MS);
      return service.close(message);
    });
  } catch (error) {
    if (!(error instanceof InvalidSettings || error instanceof CannotStart)) throw error;
    fail(error.message, env);
    control?.disconnect(); // ends it
  }
}
