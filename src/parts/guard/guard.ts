import { parseAddressBlock } from '../../engine/rules/read/address-block.ts';
import type { Offender } from './answers.ts';
import { refusal, type Spared } from './safety.ts';

/** A change of the dropped addresses, or a reason why an offender is not dropped: a line of the audit log. */
export interface GuardEvent {
  readonly event: 'add' | 'remove' | 'skip';
  readonly address: string;
  readonly reason?: string;
  readonly rule?: string;
  readonly refused?: number;
  readonly limit?: string;
  readonly seconds?: number;
}

interface GuardOptions {
  readonly spared: Spared;
  /** An address is dropped for this time at most. */
  readonly maxMs: number;
  readonly maxEntries: number;
}

interface Dropped {
  /** The kernel forgets it then by itself. */
  readonly untilMs: number;
  /** The fewest refusals that it was listed with since then; more afterwards show that it continues. */
  leastRefused: number;
  isOver: boolean;
}

/** Decides which offenders are dropped. */
export class Guard {
  readonly #options: GuardOptions;
  readonly #dropped = new Map<string, Dropped>();
  /** Why each other offender is not dropped. */
  readonly #skipped = new Map<string, string>();

  constructor(options: GuardOptions) {
    this.#options = options;
  }

  /**
   * @param offenders  all of them now, the most refused first
   * @param peers  the addresses that are connected to this machine, read if they are needed
   */
  async next(
    offenders: readonly Offender[],
    nowMs: number,
    peers: () => Promise<ReadonlySet<string>>,
  ): Promise<readonly GuardEvent[]> {
    const listed = new Map<string, Offender>();
    for (const one of offenders) if (!listed.has(one.address)) listed.set(one.address, one);
    for (const address of this.#skipped.keys()) if (!listed.has(address)) this.#skipped.delete(address);
    const events = [...this.#dropped].flatMap(([address, one]) => this.#follow(address, one, listed, nowMs));
    const others = [...listed.values()].filter(({ address, refused }) => {
      const known = this.#dropped.get(address);
      return !known || (known.isOver && refused > known.leastRefused);
    });
    if (others.length === 0) return events;
    const connected = await peers();
    for (const one of others) events.push(...this.#consider(one, connected, nowMs));
    return events;
  }

  /** Removes all. */
  clear(reason: string): readonly GuardEvent[] {
    const events = [...this.#dropped].flatMap(([address, { isOver }]): readonly GuardEvent[] =>
      isOver ? [] : [{ event: 'remove', address, reason }],
    );
    this.#dropped.clear();
    return events;
  }

  #follow(address: string, one: Dropped, listed: ReadonlyMap<string, Offender>, nowMs: number): readonly GuardEvent[] {
    const { refused } = listed.get(address) ?? {};
    const wasOver = one.isOver;
    one.isOver ||= nowMs >= one.untilMs;
    if (refused === undefined) this.#dropped.delete(address);
    else one.leastRefused = Math.min(one.leastRefused, refused);
    if (wasOver || (refused !== undefined && !one.isOver)) return [];
    return [{ event: 'remove', address, reason: one.isOver ? 'its time is over' : 'it is no offender any more' }];
  }

  #consider(
    { address, rule, refused, limit }: Offender,
    connected: ReadonlySet<string>,
    nowMs: number,
  ): readonly GuardEvent[] {
    const reason = this.#refusal(address, connected);
    if (reason !== undefined) {
      if (this.#skipped.get(address) === reason) return [];
      this.#skipped.set(address, reason);
      return [{ event: 'skip', address, reason, rule, refused, limit }];
    }
    const { maxMs } = this.#options;
    this.#skipped.delete(address);
    this.#dropped.set(address, { untilMs: nowMs + maxMs, leastRefused: refused, isOver: false });
    return [{ event: 'add', address, rule, refused, limit, seconds: maxMs / 1_000 }];
  }

  #refusal(address: string, connected: ReadonlySet<string>): string | undefined {
    const { spared, maxEntries } = this.#options;
    const block = parseAddressBlock(address);
    if (!block) return 'it is no address';
    const reason = refusal(block, spared);
    if (reason !== undefined) return reason;
    if (!connected.has(address)) return 'it is not connected to this machine';
    const count = [...this.#dropped.values()].filter(({ isOver }) => !isOver).length;
    return count < maxEntries ? undefined : `${maxEntries} addresses are dropped already (--max-entries)`;
  }
}
