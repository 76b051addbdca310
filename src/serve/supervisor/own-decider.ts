import { pid } from 'node:process';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../operate/observe/log.ts';
import type { Settings } from '../../settings/settings.ts';
import { createDecider } from '../decider/decider.ts';
import type { DeciderEvents, DeciderProcesses, ListeningDecider } from './deciders.ts';

const ID = 1;

/** The only decider, in this process. */
export function openOwnDecider(
  settings: Settings,
  { clock, events, log }: { readonly clock: Clock; readonly events: DeciderEvents; readonly log: Logger },
): DeciderProcesses {
  const decider = createDecider(settings, {
    ...{ clock, log },
    send: async (message) => events.onReply(ID, message),
    onNeverReached: events.onNeverReached,
  });
  let listening: ListeningDecider | undefined;
  return {
    async listen() {
      const at = await decider.open();
      listening = { id: ID, name: `worker ${ID} (process ${pid})`, counters: at.counters };
      events.onListening(listening);
      return at;
    },
    listening: () => (listening ? [listening] : []),
    spread: (message) => decider.receive(message),
    send: (_, message) => decider.receive(message),
    restarts: () => 0,
    close: () => decider.close(),
  };
}
