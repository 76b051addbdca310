import { setPriority } from 'node:os';
import { every } from '../../base/clock.ts';
import { createLogger } from '../../operate/observe/log.ts';
import { readSettings } from '../../settings/settings.ts';
import { InvalidSettings } from '../../settings/values.ts';
import type { ControlStart, FromControl, ToControl } from '../link/messages.ts';
import { CannotStart, type Part } from '../parts/start-up.ts';
import { openControl } from './control.ts';

// The entry of the control process, which the supervisor starts, and starts again if it ends.

/** How often this process shows the supervisor that it runs. */
const ALIVE_INTERVAL_MS = 5_000;

/** The processors are for the deciders first. */
const NICENESS = 5;

let control: Part | undefined;
const early: ToControl[] = [];
let take = (message: ToControl): void => void early.push(message);

// a terminal, and systemd by default, send these to all processes of the service: the supervisor decides
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
process.once('disconnect', () => process.exit()); // the supervisor has ended
process.on('message', (message: ToControl) => {
  if (message.kind === 'start') void start(message.start);
  else if (message.kind === 'close') void close();
  else take(message);
});

async function start({ env, rules, version, ...rest }: ControlStart): Promise<void> {
  try {
    const settings = await readSettings(env, rules);
    const log = createLogger(settings.log);
    const send = (message: FromControl): void => void process.send?.(message, undefined, undefined, () => {}); // the supervisor may have ended
    const onMessage = (listener: typeof take): void => {
      take = listener;
      for (const message of early.splice(0)) listener(message);
    };
    control = await openControl(settings, { clock: Date.now, log, version, start: rest, send, onMessage });
    every(ALIVE_INTERVAL_MS, () => send({ kind: 'alive' }));
    lowerPriority(); // the start no longer waits for it
  } catch (error) {
    if (!(error instanceof InvalidSettings || error instanceof CannotStart)) throw error;
    process.send?.({ kind: 'failed', message: error.message } satisfies FromControl, () => process.exit(1));
  }
}

async function close(): Promise<void> {
  await control?.close();
  process.disconnect();
  process.exit();
}

function lowerPriority(): void {
  try {
    setPriority(NICENESS);
  } catch {} // forbidden here: the control process competes with the deciders
}
