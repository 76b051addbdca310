import type { FixedWindowLimit } from '../../../src/engine/algorithms/fixed-window.ts';
import type { InvalidationListener, Invalidations } from '../../../src/engine/backends/backend.ts';
import type { Receipt } from '../../../src/engine/ledger/debit.ts';
import type { RedisConnection } from '../../../src/parts/redis/connect.ts';
import { RedisInvalidations } from '../../../src/parts/redis/invalidations.ts';
import type { Hasher } from '../hasher.ts';
import { KEY, LedgerWorld, type Process } from '../ledger-world.ts';
import type { Protocol, Step } from '../world.ts';

const WINDOW_MS = 60_000;
/** How long a refusal may be repeated after another process has made room. */
const STALE_MS = 1_000;
const limit: FixedWindowLimit = {
  algorithm: 'fixed_window',
  counter: 'refused',
  requestsPerUnit: 1,
  soft: 0,
  windowMs: WINDOW_MS,
  alignment: 'epoch',
};

type Handler = (...args: unknown[]) => void;

/** A process's connections to the channels of Redis. */
interface Channels {
  readonly life: number;
  readonly subscribed: Set<string>;
  readonly handlers: Map<string, Handler>;
  /** Messages on their way to it. */
  queue: (readonly [channel: string, text: string])[];
  /** The connection is dead, and neither side knows. */
  isDead: boolean;
}

/** Processes that remember refusals, and tell one another when there is room again. */
class InvalidationWorld extends LedgerWorld {
  readonly #channels: Channels[] = [];
  readonly #left = [2, 2];
  readonly #receipts: (Receipt | undefined)[] = [];
  /** When the counter got room; Infinity if it has none. */
  #roomSinceMs = 0;

  constructor(parties: readonly string[]) {
    super({
      ...{ parties, limit, policy: {} },
      ledger: { denyCacheBytes: 100_000 },
      ...{ startMs: WINDOW_MS, faults: 1, ticks: 4, tickMs: [600], cuts: false, crashes: false },
    });
    this.begin();
    const beats = ['store', '1'] as const;
    this.play(beats, beats, ['time', '600 ms pass'], ['store', '2'], ['store', '2']); // of each process to itself
    this.play(['A', 'is called'], ['A', 'spend 1'], ['store', 'OK, 0 left']);
    this.play(['B', 'is called'], ['B', 'spend 1'], ['store', 'OVER_LIMIT, 0 left']); // and B remembers the refusal
    this.#left[0] = 0;
  }

  protected override invalidations(process: Process, listener: InvalidationListener): Invalidations {
    const own: Channels = { life: process.life, subscribed: new Set(), handlers: new Map(), queue: [], isDead: false };
    this.#channels[process.place] = own;
    const publish = async (channel: string, text: string): Promise<number> => {
      if (own.isDead) throw new Error('Connection is closed.');
      for (const one of this.#channels) if (one.subscribed.has(channel) && !one.isDead) one.queue.push([channel, text]);
      return 1;
    };
    const copy = {
      status: 'ready',
      options: {},
      on: (event: string, handler: Handler) => void own.handlers.set(event, handler),
      subscribe: async (...channels: string[]) => {
        if (own.isDead) throw new Error('Connection is closed.');
        for (const channel of channels) own.subscribed.add(channel);
      },
      disconnect: () => {
        own.subscribed.clear();
        own.queue = [];
      },
    };
    const redis = { status: 'ready', options: {}, publish, duplicate: () => copy, on: () => {} };
    const connection = redis as unknown as RedisConnection; // the part that is used
    const invalidations = new RedisInvalidations(connection, { prefix: '', listener, monotonicMs: this.clock });
    own.handlers.get('ready')?.();
    return invalidations;
  }

  protected clientSteps(process: Process): Omit<Step, 'touches'>[] {
    const { place, name } = process;
    const steps: Omit<Step, 'touches'>[] = [];
    if ((this.#left[place] ?? 0) > 0)
      steps.push({ line: { from: name, text: 'is called' }, slot: 0, run: () => this.#call(process) });
    const receipt = this.#receipts[place];
    if (receipt)
      steps.push({
        line: { from: name, text: 'takes its hit back' },
        slot: 1,
        run: () => this.#refund(process, receipt),
      });
    const channels = this.#channels[place];
    if (channels && channels.queue.length > 0)
      steps.push({
        line: { from: 'store', to: name, text: `${channels.queue.length} messages` },
        run: () => this.#receive(channels),
      });
    if (channels && !channels.isDead && this.faults > 0)
      steps.push({ line: { from: name, text: 'its connection dies' }, run: () => this.#die(channels) });
    if (channels?.isDead)
      steps.push({ line: { from: name, text: 'the network is back' }, run: () => this.#revive(channels) });
    return steps;
  }

  #call(process: Process): void {
    const { place } = process;
    this.#left[place] = (this.#left[place] ?? 0) - 1;
    const calledMs = this.runtime.nowMs;
    this.request(process, this.debit(1), { spend: 'all_or_nothing', receipts: true }, (entry) => {
      if (entry?.code === 'OK') {
        this.#receipts[place] = entry.receipt;
        this.#roomSinceMs = Number.POSITIVE_INFINITY;
      }
      if (entry?.fromCache && calledMs - this.#roomSinceMs > STALE_MS)
        this.fail(`a refusal is repeated ${calledMs - this.#roomSinceMs} ms after another process has made room`);
    });
  }

  #refund(process: Process, receipt: Receipt): void {
    const { place, life } = process;
    this.#receipts[place] = undefined;
    process.pending++;
    void process.ledger.refund(receipt).then(() => {
      if (process.life !== life) return;
      process.pending--;
      const [, count = 0] = this.store.readState(KEY) ?? [];
      if (count === 0) this.#roomSinceMs = Math.min(this.#roomSinceMs, this.runtime.nowMs);
    });
  }

  #receive(channels: Channels): void {
    const due = channels.queue;
    channels.queue = [];
    for (const message of due) channels.handlers.get('message')?.(...message);
  }

  #die(channels: Channels): void {
    this.faults--;
    channels.isDead = true;
    channels.queue = [];
  }

  #revive(channels: Channels): void {
    channels.isDead = false;
  }

  protected crashed({ place }: Process): void {
    this.#receipts[place] = undefined;
    const channels = this.#channels[place];
    channels?.subscribed.clear();
    if (channels) channels.queue = [];
  }

  protected describeClients(hash: Hasher): void {
    hash.numbers([...this.#left, this.#roomSinceMs]);
    hash.value(this.#receipts.map((receipt) => receipt?.refund));
    for (const { subscribed, queue, isDead, life } of this.#channels) {
      hash.value([[...subscribed], queue, isDead, life]);
    }
    for (const { ledger } of this.processes) hash.value(inside(ledger));
  }

  protected check(): string | undefined {
    return undefined;
  }

  protected finalViolation(): string | undefined {
    return undefined;
  }
}

/** What the invalidations of a ledger know. */
function inside(ledger: unknown): unknown {
  const { _backends: backends } = ledger as {
    readonly _backends: { readonly _invalidations: ReadonlyMap<unknown, Record<string, unknown>> };
  };
  return [...backends._invalidations.values()].map((one) => [
    one._beatAtMs,
    one._isSubscribed,
    one._subscribedAtMs,
    one._queued,
    one._isFlushScheduled,
  ]);
}

export const invalidation: Protocol = {
  name: 'invalidation',
  code: 'engine/ledger/refusals.ts, parts/redis/invalidations.ts',
  parties: ['store', 'A', 'B'],
  invariants: ['no refusal is repeated for more than a second after room was made'],
  depth: 7,
  longDepth: 9,
  create: () => new InvalidationWorld(invalidation.parties),
};
