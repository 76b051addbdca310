import { readFileSync } from 'node:fs';
import { controlOf, workersOf } from '../processes/service-processes.ts';
import { KIB, median } from '../tables/figures.ts';

const INTERVAL_MS = 1_000;

/** Memory of the processes at one time, in bytes. */
interface Sample {
  readonly atMs: number;
  readonly control: number;
  readonly deciders: number;
}

/** Samples the processes of a service every second, and notes those that have ended. */
export class Processes {
  readonly #service: { readonly pid: number };
  readonly #control: number;
  readonly #deciders: readonly number[];
  readonly #startMs = performance.now();
  readonly #samples: Sample[] = [];
  readonly #died = new Set<string>();
  readonly #timer: NodeJS.Timeout;
  #controlPeak = 0;
  #controlPeakAtMs = 0;

  constructor(service: { readonly pid: number }) {
    this.#service = service;
    this.#control = controlOf(service) ?? 0;
    this.#deciders = workersOf(service);
    this.#timer = setInterval(() => this.#sample(), INTERVAL_MS);
  }

  /** Those that have ended, in words. */
  get died(): readonly string[] {
    return [...this.#died];
  }

  /** The most resident memory that the control process has had, as the kernel knows it. */
  get controlPeakBytes(): number {
    return this.#controlPeak;
  }

  /** When it had that, from the start of the samples. */
  get controlPeakAtMs(): number {
    return this.#controlPeakAtMs;
  }

  /** Medians of the samples in this part of the run, from 0 to 1; all deciders together. */
  medians(from: number, to: number): Pick<Sample, 'control' | 'deciders'> {
    const lengthMs = this.#samples.at(-1)?.atMs ?? 0;
    const part = this.#samples.filter(({ atMs }) => atMs >= from * lengthMs && atMs <= to * lengthMs);
    return {
      control: median(part.map(({ control }) => control)),
      deciders: median(part.map(({ deciders }) => deciders)),
    };
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #sample(): void {
    const names = new Map([
      [this.#service.pid, 'the supervisor'],
      [this.#control, 'the control process'],
      ...this.#deciders.map((pid) => [pid, 'a decider'] as const),
    ]);
    for (const [pid, name] of names) if (readBytes(pid, 'VmRSS') === 0) this.#died.add(`${name} (process ${pid})`);
    const atMs = performance.now() - this.#startMs;
    const peak = readBytes(this.#control, 'VmHWM');
    if (peak > this.#controlPeak) [this.#controlPeak, this.#controlPeakAtMs] = [peak, atMs];
    this.#samples.push({
      atMs,
      control: readBytes(this.#control, 'VmRSS'),
      deciders: this.#deciders.reduce((sum, pid) => sum + readBytes(pid, 'VmRSS'), 0),
    });
  }
}

/** A size in the status of a process; 0 if it has ended. */
function readBytes(pid: number, name: 'VmRSS' | 'VmHWM'): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    return Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1] ?? 0) * KIB;
  } catch {
    return 0;
  }
}
