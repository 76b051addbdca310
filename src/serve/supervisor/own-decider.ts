import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../operate/observe/log.ts';
import type { Settings } from '../../settings/settings.ts';
import { createDecider } from '../decider/decider.ts';
import type { DeciderQuestion, DeciderReply, Listening, SpreadMessage } from '../link/messages.ts';

/** Called by deciders. */
export interface DeciderEvents {
  readonly onListening: (id: number, name: string) => void;
  readonly onEnded: (id: number) => void;
  readonly onReply: (id: number, message: DeciderReply) => void;
}

/** The deciders of the service, as its supervisor sees them. */
export interface Deciders {
  /**
   * Opens the servers, once the first rules have been spread.
   *
   * @throws CannotStart
   */
  listen(): Promise<Listening>;
  listening(): Iterable<{ readonly id: number; readonly name: string }>;
  /** Sends rules to every decider. */
  spread(message: SpreadMessage): void;
  send(id: number, message: DeciderQuestion): void;
  /** The number of deciders that replaced one that ended. */
  restarts(): number;
  /** Lets the deciders finish the calls in flight, and send their last reports. */
  close(): Promise<void>;
}

const ID = 1;

/** The only decider, in this process. */
export function openOwnDecider(
  settings: Settings,
  { clock, events, log }: { readonly clock: Clock; readonly events: DeciderEvents; readonly log: Logger },
): Deciders {
  const decider = createDecider(settings, {
    ...{ clock, log },
    send: async (message) => events.onReply(ID, message),
  });
  const self = { id: ID, name: `worker ${ID} (process ${process.pid})` };
  let isListening = false;
  return {
    async listen() {
      const at = await decider.open();
      isListening = true;
      events.onListening(self.id, self.name);
      return at;
    },
    listening: () => (isListening ? [self] : []),
    spread: (message) => decider.receive(message),
    send: (_, message) => decider.receive(message),
    restarts: () => 0,
    close: () => decider.close(),
  };
}
