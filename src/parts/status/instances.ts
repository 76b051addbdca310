import type { Clock } from '../../base/clock.ts';
import { parseObject } from '../../base/json.ts';
import { type Records, removeExpired } from '../../engine/backends/records.ts';
import type { Instance } from './answers.ts';

/** An instance's report on itself. */
export type InstanceReport = Omit<Instance, 'atMs' | 'isThis'>;

const MAP = 'instances';
const INTERVAL_MS = 5_000;
/** Instances that have not reported for this long are not listed. */
const SILENT_MS = 20_000;
/** Their reports are removed after this time. */
const FORGOTTEN_MS = 600_000;

interface HeartbeatOptions {
  /** Names this process; differs after each start. */
  readonly id: string;
  readonly records: Records;
  readonly clock: Clock;
  readonly facts: () => InstanceReport;
  readonly every: (intervalMs: number, run: () => void) => () => void;
}

/** Announces this instance to the others on the same Redis, and lists them. */
export class Heartbeat {
  readonly #options: HeartbeatOptions;
  readonly #stop: () => void;
  #isBeating = false;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
    this.#stop = options.every(INTERVAL_MS, () => void this.#beat());
    void this.#beat();
  }

  /** @throws Error  the instances cannot be read */
  async list(): Promise<readonly Instance[]> {
    const { records, clock, id } = this.#options;
    const nowMs = clock();
    const found: Instance[] = [{ ...this.#options.facts(), atMs: nowMs, isThis: true }];
    const silent = new Map<string, number>();
    for (const [field, text] of await records.all(MAP)) {
      const facts = parseObject(text) as Omit<Instance, 'isThis'> | undefined; // as written here, or foreign
      if (field === id || !facts) continue;
      if (nowMs - facts.atMs < SILENT_MS) found.push({ ...facts, isThis: false });
      else if (nowMs - facts.atMs > FORGOTTEN_MS) silent.set(field, facts.atMs + FORGOTTEN_MS);
    }
    await removeExpired(records, MAP, silent);
    return found.sort((one, other) => one.startedAtMs - other.startedAtMs);
  }

  /** The others list this instance until it has been silent for a while: the deciders, which reach Redis, end first. */
  close(): void {
    this.#stop();
  }

  async #beat(): Promise<void> {
    const { records, clock, facts, id } = this.#options;
    if (this.#isBeating) return;
    this.#isBeating = true;
    await records.put(MAP, id, JSON.stringify({ ...facts(), atMs: clock() })).catch(() => {}); // the next one may succeed
    this.#isBeating = false;
  }
}
