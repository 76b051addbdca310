import type { Eventual } from '../../base/later.ts';
import { unitMs } from '../algorithms/limit.ts';
import type {
  Backend,
  BackendHealth,
  CounterPage,
  InvalidationListener,
  Invalidations,
  Operation,
  Recall,
  Replies,
  RunOptions,
} from '../backends/backend.ts';
import type { CounterKey } from '../backends/key.ts';
import { scatter } from '../backends/scatter.ts';
import type { Limit } from '../holds/limits.ts';

export interface Backends {
  readonly main: Backend;
  /** Holds the counters of limits per second. */
  readonly perSecond?: Backend | undefined;
}

/** The part of an operation that determines its backend. */
type Limited = { readonly limit: Limit };

/** Limits per second may have a separate Redis. */
export const isBySecond = ({ limit }: Limited): boolean => limit.windowMs === unitMs.SECOND;

/** The backends of a ledger, used as one. */
export class LedgerBackends {
  readonly all: readonly Backend[];
  readonly main: Backend;
  readonly perSecond: Backend | undefined;
  readonly #invalidations = new Map<Backend, Invalidations>();

  constructor({ main, perSecond }: Backends) {
    this.all = perSecond ? [main, perSecond] : [main];
    this.main = main;
    this.perSecond = perSecond;
  }

  /** The scope of an atomic step. */
  get atomic(): Backend['atomic'] {
    return this.perSecond ? 'counter' : this.main.atomic;
  }

  of(limited: Limited): Backend {
    return this.perSecond && isBySecond(limited) ? this.perSecond : this.main;
  }

  run(operations: readonly Operation[], how: RunOptions): Eventual<Replies> {
    if (!this.perSecond) return this.main.run(operations, how);
    return scatter(
      operations,
      (operation) => this.of(operation),
      (backend, own) => backend.run(own, how),
    );
  }

  /** See `Backend.recallWith`. */
  recallWith(recall: Recall): void {
    for (const backend of this.all) backend.recallWith?.(recall);
  }

  /** As `Backend.isSilent`; a backend that cannot tell is not silent. */
  isSilent(operation: Operation, nowMs: number): boolean {
    return this.of(operation).isSilent?.(operation, nowMs) ?? false;
  }

  /** Subscribes to changes by other instances. The counters are trusted when those of each backend are. */
  listen(listener: InvalidationListener): void {
    const doubted = new Set<Backend>();
    for (const backend of this.all) {
      const invalidations = backend.invalidations?.({
        ...listener,
        doubted() {
          doubted.add(backend);
          listener.doubted?.();
        },
        trusted() {
          doubted.delete(backend);
          if (doubted.size === 0) listener.trusted?.();
        },
      });
      if (invalidations) this.#invalidations.set(backend, invalidations);
    }
  }

  /** Whether this process listens to a backend that can publish changes. */
  get publishes(): boolean {
    return this.#invalidations.size > 0;
  }

  /** Notifies the other instances. */
  publish(what: 'changed' | 'forgotten', { key, limit }: Limited & { readonly key: CounterKey }): void {
    this.#invalidations.get(this.of({ limit }))?.publish(what, key);
  }

  /** Whether all changes by other instances arrive. */
  isLive(): boolean {
    return this.all.every((backend) => this.#invalidations.get(backend)?.isLive() ?? false);
  }

  /**
   * Lists the counters of each backend in turn: see `Backend.list`.
   *
   * @returns undefined  the backend cannot list
   */
  async list(after: string | undefined, count: number): Promise<CounterPage | undefined> {
    const at = Number(after?.split('/')[0] ?? 0);
    const own = after?.slice(after.indexOf('/') + 1);
    const page = await this.all[at]?.list?.(own === '' ? undefined : own, count);
    if (!page) return undefined;
    const next = page.next !== undefined ? `${at}/${page.next}` : at + 1 < this.all.length ? `${at + 1}/` : undefined;
    return { keys: page.keys, ...(next !== undefined && { next }) };
  }

  health(): BackendHealth {
    return this.all.map((backend) => backend.health()).find(({ ready }) => !ready) ?? { ready: true };
  }

  async close(): Promise<void> {
    await Promise.all(this.all.map((backend) => backend.close()));
  }
}
