import type { Backend, InvalidationListener, Settlement } from '../../../src/engine/backends/backend.ts';
import type { CounterKey } from '../../../src/engine/backends/key.ts';
import { createMemoryBackend } from '../../../src/engine/backends/memory/backend.ts';
import { createDebit, type Debit, type Receipt } from '../../../src/engine/ledger/debit.ts';
import type { Ledger } from '../../../src/engine/ledger/ledger.ts';
import { leasesWithin } from '../../../src/parts/leases/leases.ts';
import { fakeClock } from '../../helpers/clock.ts';
import { ledgerOf } from '../../helpers/ledger.ts';
import { fixedWindowOf, type PolicedLimit as Limit } from '../../helpers/limits.ts';
import { operationOf } from '../../helpers/operations.ts';
import fc from '../../helpers/property.ts';

/** The number of runs; `LEDGER_RUNS` makes a longer search. */
const RUNS = Number(process.env.LEDGER_RUNS ?? 150);

const INSTANCES = 3;
const LIMIT = 100;
const SHARE = 4;
const WINDOW_MS = 10_000;
const START_MS = 1_700_000_000_000;
/** Hits that are lost with a process or an answer stay lost until their window ends. */
const STRANDED_MS = WINDOW_MS;

type Command =
  | { readonly do: 'debit'; readonly at: number; readonly hits: number }
  | { readonly do: 'refund'; readonly receipt: number }
  | { readonly do: 'peek' | 'forget' | 'reload' | 'settle' | 'close'; readonly at: number }
  | { readonly do: 'partition'; readonly at: number; readonly isAway: boolean }
  | { readonly do: 'outage'; readonly isAway: boolean }
  | { readonly do: 'lose_replies'; readonly are: boolean }
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'step_wall_clock'; readonly ms: number };

const at = fc.nat({ max: INSTANCES - 1 });
const anyCommand: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 30,
    arbitrary: fc.record({
      do: fc.constant('debit' as const),
      at,
      hits: fc.oneof(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 15 })),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('refund' as const), receipt: fc.nat({ max: 20 }) }) },
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constantFrom('peek', 'reload', 'settle', 'settle', 'close' as const), at }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('forget' as const), at }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('partition' as const), at, isAway: fc.boolean() }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('outage' as const), isAway: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('lose_replies' as const), are: fc.boolean() }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 300 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 12_000 }) }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('step_wall_clock' as const), ms: fc.integer({ min: -9_000, max: -1 }) }),
  },
);

const key = 'counter' as CounterKey; // any key will do

/** Several instances with one backend, a network that can be partitioned, and all admitted hits. */
class World {
  readonly storeClock = fakeClock(START_MS);
  readonly wallClock = fakeClock(START_MS);
  readonly monotonic = fakeClock(0);
  readonly #engine = createMemoryBackend(this.storeClock, { maxCounters: 100 });
  readonly #settled = new Map<string, number>();
  readonly #listeners = new Map<number, InvalidationListener>();
  readonly #away = new Set<number>();
  readonly #ledgers: Ledger[] = [];
  readonly #sweeps: (() => void)[][] = [];
  #limits: Limit[] = [];
  #starts = 0;
  /** The latest window in which each instance counted locally; it stays current when the clock steps back. */
  readonly #localWindows = new Map<string, number>();
  readonly names: string[] = [];
  isOut = false;
  losesReplies = false;
  /** Admitted hits minus refunds, by the window of the clock that counted them. */
  readonly counted = new Map<number, number>();
  readonly local = new Map<string, number>();
  receipts: { readonly receipt: Receipt; readonly by: number; readonly window: string | number; redeemed: number }[] =
    [];

  readonly base: Limit;

  constructor(base: Limit) {
    this.base = base;
    for (let one = 0; one < INSTANCES; one++) this.start(one);
  }

  start(one: number): void {
    this.#sweeps[one] = [];
    this.#limits[one] = { ...this.base };
    this.names[one] = `${one}:${this.#starts++}`;
    this.#ledgers[one] = ledgerOf(this.#backendOf(one), {
      ...{ clock: this.wallClock, monotonicMs: this.monotonic, instance: this.names[one] ?? '' },
      ...{ denyCacheBytes: 100_000, leases: leasesWithin({ maxLeases: 10, idleMs: 250 }) },
      local: { maxCounters: 100, maxBytes: 1_000_000, instances: () => 1 },
      every: (_, run) => {
        this.#sweeps[one]?.push(run);
        return () => {};
      },
    });
  }

  ledger(one: number): Ledger {
    const ledger = this.#ledgers[one];
    if (!ledger) throw new RangeError(`expected an instance below ${INSTANCES}, got ${one}`);
    return ledger;
  }

  /** Names the window in which an instance counts locally; a restarted instance has a new one. */
  localWindowOf(one: number): string {
    const name = this.names[one] ?? '';
    const window = Math.max(this.#localWindows.get(name) ?? 0, windowOf(this.wallClock()));
    this.#localWindows.set(name, window);
    return `${name}:${window}`;
  }

  isAway = (one: number): boolean => this.isOut || this.#away.has(one);

  partition(one: number, isAway: boolean): void {
    if (isAway) this.#away.add(one);
    else if (this.#away.delete(one)) this.#listeners.get(one)?.missed();
  }

  outage(isAway: boolean): void {
    if (this.isOut && !isAway) for (const listener of this.#listeners.values()) listener.missed();
    this.isOut = isAway;
  }

  /** A new rule tree with the same numbers. */
  reload(one: number): void {
    this.#limits[one] = { ...this.base };
  }

  debitOf(one: number, hits: number): Debit {
    const limit = this.#limits[one] ?? this.base;
    return createDebit({ key }, { limit, policy: limit }, hits, true);
  }

  async sweep(one: number): Promise<void> {
    for (const run of this.#sweeps[one] ?? []) run();
    await this.rest();
  }

  async rest(): Promise<void> {
    for (let turn = 0; turn < 6; turn++) await new Promise(setImmediate);
  }

  /** The current count. */
  stands(): number {
    const replies = this.#engine.run([operationOf({ key }, this.base, 0, true)], { spend: 'each', timeoutMs: 1 });
    const [reply] = 'then' in replies ? [] : replies;
    return reply && 'hitsBefore' in reply ? reply.hitsBefore : Number.NaN;
  }

  #backendOf(one: number): Backend {
    const unavailable = { code: 'UNAVAILABLE', reason: 'away' } as const;
    return {
      ...this.#engine,
      run: async (operations, how) => {
        if (this.isAway(one)) return operations.map(() => unavailable);
        const replies = await this.#engine.run(operations, how);
        return this.losesReplies ? operations.map(() => unavailable) : replies;
      },
      settle: async (settlement: Settlement) => {
        if (this.isAway(one)) return false;
        if (settlement.number > (this.#settled.get(settlement.instance) ?? 0))
          await this.#engine.settle(settlement, 15);
        this.#settled.set(
          settlement.instance,
          Math.max(settlement.number, this.#settled.get(settlement.instance) ?? 0),
        );
        return !this.losesReplies;
      },
      invalidations: (listener) => {
        this.#listeners.set(one, listener);
        return {
          isLive: () => !this.isAway(one),
          publish: (what, changed) => {
            for (const [other, { [what]: notify }] of this.#listeners)
              if (other !== one && !this.isAway(other)) notify(changed);
          },
        };
      },
      health: () => (this.isAway(one) ? { ready: false, reason: 'away' } : { ready: true }),
      close: async () => {},
    };
  }
}

const windowOf = (ms: number): number => Math.floor(ms / WINDOW_MS);

async function play(world: World, command: Command): Promise<void> {
  switch (command.do) {
    case 'debit': {
      const by = command.at;
      const debit = world.debitOf(by, command.hits);
      const [entry] = await world.ledger(by).debit([debit], { spend: 'each', timeoutMs: 15, receipts: true });
      if (entry?.code !== 'OK') return;
      const isLocal = entry.degraded === 'local';
      const window = isLocal ? world.localWindowOf(by) : windowOf(world.storeClock());
      if (typeof window === 'string') world.local.set(window, (world.local.get(window) ?? 0) + command.hits);
      else world.counted.set(window, (world.counted.get(window) ?? 0) + command.hits);
      expect(entry.receipt).toBeDefined();
      if (entry.receipt) world.receipts.push({ receipt: entry.receipt, by, window, redeemed: 0 });
      return;
    }
    case 'refund': {
      const one = world.receipts[command.receipt % Math.max(world.receipts.length, 1)];
      if (!one) return;
      const before = world.stands();
      await world.ledger(one.by).refund(one.receipt);
      expect(before - world.stands()).toBeLessThanOrEqual(one.redeemed++ === 0 ? one.receipt.refund.hits : 0);
      return;
    }
    case 'peek': {
      const before = world.stands();
      const peek: Debit = { ...world.debitOf(command.at, 3), kind: 'peek' };
      await world.ledger(command.at).debit([peek], { spend: 'each', timeoutMs: 15 });
      expect(world.stands()).toBe(before);
      return;
    }
    case 'forget': {
      const failed = await world.ledger(command.at).forget({ key }, world.base);
      await world.rest();
      if (!failed && !world.isAway(command.at)) expect(world.stands()).toBe(0);
      return;
    }
    case 'reload':
      return world.reload(command.at);
    case 'settle':
      return world.sweep(command.at);
    case 'close':
      await world.ledger(command.at).close();
      return world.start(command.at);
    case 'partition':
      return world.partition(command.at, command.isAway);
    case 'outage':
      return world.outage(command.isAway);
    case 'lose_replies':
      world.losesReplies = command.are;
      return;
    case 'wait':
      for (const clock of [world.storeClock, world.wallClock, world.monotonic]) clock.advance(command.ms);
      return;
    case 'step_wall_clock':
      world.wallClock.advance(command.ms);
  }
}

const isRefund = ({ do: what }: Command): boolean => what === 'refund' || what === 'forget';
const limitOf = (isLeased: boolean): Limit => ({
  ...fixedWindowOf(LIMIT, WINDOW_MS),
  ...{ onStoreFailure: 'local', localShare: SHARE },
  ...(isLeased && { consistency: 'leased' as const }),
});

async function run(commands: readonly Command[], isLeased: boolean): Promise<World> {
  const world = new World(limitOf(isLeased));
  for (const command of commands) await play(world, command);
  return world;
}

describe.each([true, false])('with leased hits: %s', (isLeased) => {
  test('no window admits more than the limit, plus the share of each process', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyCommand, { minLength: 20, maxLength: 150 }), async (commands) => {
        const world = await run(
          commands.filter((command) => !isRefund(command)), // refunded hits may be admitted again
          isLeased,
        );
        for (const hits of world.counted.values()) expect(hits).toBeLessThanOrEqual(LIMIT);
        for (const hits of world.local.values()) expect(hits).toBeLessThanOrEqual(Math.floor(LIMIT / SHARE));
      }),
      { numRuns: RUNS },
    );
  });

  test('each receipt refunds at most once, a peek charges nothing, and a forgotten counter is new', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyCommand, { minLength: 20, maxLength: 150 }), async (commands) => {
        await run(commands, isLeased);
      }),
      { numRuns: RUNS },
    );
  });

  test('no hits stay stranded, so the whole limit can be spent in the next window', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyCommand, { maxLength: 40 }), async (commands) => {
        const world = await run(commands, isLeased);
        world.outage(false);
        world.losesReplies = false;
        for (let one = 0; one < INSTANCES; one++) {
          world.partition(one, false);
          await world.sweep(one);
        }
        for (const clock of [world.storeClock, world.monotonic]) clock.advance(STRANDED_MS);
        world.wallClock.set(world.storeClock());
        for (let one = 0; one < INSTANCES; one++) await world.sweep(one);
        let passed = 0;
        for (let hit = 0; hit < LIMIT + 20; hit++) {
          const by = hit % INSTANCES;
          const [entry] = await world.ledger(by).debit([world.debitOf(by, 1)], { spend: 'each', timeoutMs: 15 });
          if (entry?.code === 'OK') passed++;
          await world.sweep(by);
        }
        expect(passed).toBe(LIMIT);
      }),
      { numRuns: Math.ceil(RUNS / 3) },
    );
  });
});
