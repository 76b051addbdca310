import type { Monotonic } from '../../base/clock.ts';

const INTERVAL_MS = 100;
const BAR_CHARACTERS = 30;

/** Shows the progress of a replay on a terminal. */
export class Progress {
  readonly #totalBytes: number | undefined;
  readonly #write: (text: string) => void;
  readonly #monotonicMs: Monotonic;
  readonly #startedMs: number;
  #shownMs = Number.NEGATIVE_INFINITY;

  /** @param totalBytes  undefined if unknown */
  constructor(totalBytes: number | undefined, write: (text: string) => void, monotonicMs: Monotonic) {
    this.#totalBytes = totalBytes;
    this.#write = write;
    this.#monotonicMs = monotonicMs;
    this.#startedMs = monotonicMs();
  }

  show(bytes: number, lines: number): void {
    const nowMs = this.#monotonicMs();
    if (nowMs - this.#shownMs < INTERVAL_MS) return;
    this.#shownMs = nowMs;
    const perSecond = Math.round((lines * 1_000) / Math.max(nowMs - this.#startedMs, 1));
    const count = `${lines.toLocaleString('en-US')} lines, ${perSecond.toLocaleString('en-US')}/s`;
    this.#write(`\r\u001b[K${this.#bar(bytes)}${count}`);
  }

  clear(): void {
    if (this.#shownMs !== Number.NEGATIVE_INFINITY) this.#write('\r\u001b[K');
  }

  #bar(bytes: number): string {
    if (!this.#totalBytes) return '';
    const part = Math.min(bytes / this.#totalBytes, 1);
    const full = Math.round(part * BAR_CHARACTERS);
    return `[${'='.repeat(full)}${' '.repeat(BAR_CHARACTERS - full)}] ${Math.floor(part * 100)} %  `;
  }
}
