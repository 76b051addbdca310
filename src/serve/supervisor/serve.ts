import type { ChildProcess } from 'node:child_process';
import { pid } from 'node:process';
import type { Clock } from '../../base/clock.ts';
import { Later } from '../../base/later.ts';
import type { StandingOverride } from '../../engine/decide/overrides.ts';
import { createLogger, type Logger } from '../../operate/observe/log.ts';
import type { Settings } from '../../settings/settings.ts';
import { spendProblem } from '../../settings/store-traits.ts';
import { createDecider } from '../decider/decider.ts';
import type { About, FromControl, Listening, ToControl } from '../link/messages.ts';
import { KeptRules } from '../link/rules-messages.ts';
import { CannotStart, openParts } from '../parts/start-up.ts';
import { keepControl } from './control-child.ts';
import type { DeciderEvents, DeciderProcesses, ListeningDecider } from './deciders.ts';
import { type ControlSource, startMessage } from './fork-control.ts';

interface ServeOptions {
  /** The control process, from `startControl`. */
  readonly control: ChildProcess;
  readonly clock: Clock;
  /** What the settings were read from, for the control process. */
  readonly source: ControlSource;
}

/**
 * Starts the control process, which reads the rules and serves operators, and the deciders, which answer callers: in
 * this process if there is one, else in workers. Passes messages between them, keeps what a process that starts later
 * needs, and replaces those that end.
 *
 * @throws CannotStart if rules at a plain path are invalid, an address cannot be bound, or certificates cannot be used
 */
export async function serve(settings: Settings, options: ServeOptions) {
  const log = createLogger(settings.log);
  for (const warning of settings.warnings) log.warn(warning);
  const problem = spendProblem(settings.counters);
  if (problem?.isFatal) throw new CannotStart(problem.message);
  if (problem) log.warn(problem.message);

  const supervisor = new Supervisor(settings, options, log);
  const { about, at, close } = await openParts(async (add) => {
    add(supervisor);
    return supervisor.open();
  });
  let isClosing = false;
  return {
    /** Printed at the start. */
    banner: banner({ version: options.source.version, workers: settings.workers, about, at }),
    /** The same for programs. */
    facts: { rules: about.rules, ...at, debug: about.debug, workers: settings.workers },
    /** Resolves with the reason if the service can never work. */
    failed: supervisor.failed,
    /** Finishes the calls in flight, then stops. @param reason  for the log, such as the signal */
    async close(reason?: string): Promise<void> {
      if (reason !== undefined && !isClosing) log.info(`shutting down: ${reason}`);
      isClosing = true;
      await close();
    },
  };
}

class Supervisor {
  readonly failed = new Later<CannotStart>();
  readonly #settings: Settings;
  readonly #options: ServeOptions;
  readonly #log: Logger;
  readonly #kept = new KeptRules();
  #overrides: readonly StandingOverride[] | undefined;
  readonly #ofParts = new Map<string, unknown>();
  #areOperatorsServed = false;
  /** The number of control processes that have been started. */
  #controls = 1;
  readonly #control: ReturnType<typeof keepControl>;
  #deciders: DeciderProcesses | undefined;

  constructor(settings: Settings, options: ServeOptions, log: Logger) {
    this.#settings = settings;
    this.#options = options;
    this.#log = log;
    this.#control = keepControl({
      log,
      first: options.control,
      onMessage: (message) => this.#fromControl(message),
      onReplaced: (send) => {
        send(startMessage(options.source, this.#controls++, { overrides: this.#overrides, kept: this.#ofParts }));
        for (const decider of this.#deciders?.listening() ?? []) send(this.#deciderMessage(decider, true));
      },
    });
  }

  /** @throws CannotStart */
  async open(): Promise<{ readonly about: About; readonly at: Listening }> {
    const events: DeciderEvents = {
      onListening: (decider) => this.#control.send(this.#deciderMessage(decider, false)),
      onNeverReached: (reason) => this.failed.resolve(reason),
      onEnded: (id) => this.#control.send({ kind: 'decider_ended', id }),
      onReply: (id, message) => this.#control.send({ kind: 'from', id, message }),
    };
    const { workers } = this.#settings;
    const kept = {
      messages: () => [...this.#kept.messages(), ...(this.#areOperatorsServed ? [OPERATORS_SERVED] : [])],
      overrides: () => this.#overrides,
    };
    this.#deciders =
      workers > 1
        ? (await import('./pool.ts')).openPool(this.#settings, { kept, events, log: this.#log })
        : openOwnDecider(this.#settings, { clock: this.#options.clock, events, log: this.#log });
    void this.#control.opened.then(() => this.#operatorsServed()).catch(() => {}); // then the start fails
    const [about, at] = await Promise.all([this.#control.opened, this.#deciders.listen()]);
    return { about, at };
  }

  #operatorsServed(): void {
    this.#areOperatorsServed = true;
    this.#deciders?.spread(OPERATORS_SERVED);
  }

  async close(): Promise<void> {
    this.#control.keepAlone();
    await this.#deciders?.close(); // they send their last reports
    await this.#control.close();
  }

  #deciderMessage(decider: ListeningDecider, hasReported: boolean): ToControl {
    return { kind: 'decider', decider: { ...decider, hasReported, restarts: this.#deciders?.restarts() ?? 0 } };
  }

  #fromControl(message: FromControl): void {
    switch (message.kind) {
      case 'rules':
      case 'candidate':
        this.#kept.keep(message);
        return this.#deciders?.spread(message);
      case 'kept':
        return void this.#ofParts.set(message.part, message.value);
      case 'to':
        if (message.message.kind === 'ask' && message.message.question.kind === 'overrides')
          this.#overrides = message.message.question.overrides;
        return this.#deciders?.send(message.id, message.message);
      default:
        return undefined; // `keepControl` handles it
    }
  }
}

const OPERATORS_SERVED = { kind: 'operators_served' } as const;

const OWN_ID = 1;

/** The only decider, in this process. */
function openOwnDecider(
  settings: Settings,
  { clock, events, log }: { readonly clock: Clock; readonly events: DeciderEvents; readonly log: Logger },
): DeciderProcesses {
  const decider = createDecider(settings, {
    clock,
    log,
    send: async (message) => events.onReply(OWN_ID, message),
    onNeverReached: events.onNeverReached,
  });
  let listening: ListeningDecider | undefined;
  return {
    async listen() {
      const at = await decider.open();
      listening = { id: OWN_ID, name: `worker ${OWN_ID} (process ${pid})`, counters: at.counters };
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

interface Running {
  readonly version: string;
  /** The number of processes that answer requests. */
  readonly workers: number;
  readonly about: About;
  readonly at: Listening;
}

/** The text printed at the start: the rules, the addresses, and a command to try. */
function banner({ version, workers, about, at }: Running): string {
  const { rules, details, debug, console, example } = about;
  return [
    `Weir ${version}`,
    `  rules     ${rules}`,
    ...details.map((line) => `            ${line}`),
    `  counters  ${at.counters}`,
    ...(workers > 1 ? [`  workers   ${workers} processes`] : []),
    `  gRPC      ${at.grpc}`,
    `  HTTP      ${at.http}  (/json, /healthcheck)`,
    `  debug     ${debug}  (/rlconfig, /metrics)`,
    `  console   ${console}`,
    ...(example === undefined ? [] : [`  try       ${exampleCommand(example, console)}`]),
  ].join('\n');
}

/** @param console  the address of the console, on the debug port */
function exampleCommand(request: string, console: string): string {
  const { protocol, host, origin } = new URL(console);
  const target = protocol === 'https:' ? origin : host;
  return `npx weir ask ${request}${target === 'localhost:6070' ? '' : ` --target ${target}`}`;
}
