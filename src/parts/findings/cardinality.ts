import { mixed } from '../lab/sketches/top-name.ts';
import { keptText, MAX_TEXT_LENGTH, type NamedProxy } from './proxies.ts';

/** A key that has many more different values than before. */
export interface CardinalityJump {
  readonly domain: string;
  readonly key: string;
  /** The proxy that sent the last new value, and that value. */
  readonly by: NamedProxy;
  readonly example: string;
  readonly sinceMs: number;
  /** Different values among `SAMPLE` of them, before and now. */
  readonly before: number;
  readonly now: number;
}

/** Values in a sample: samples of one size are comparable at any rate of requests. */
export const SAMPLE = 512;
/** Samples with which a new one is compared, and how many are needed. */
const KEPT_SAMPLES = 12;
const MIN_SAMPLES = 3;
/** A jump reaches this multiple and this many values; it ends below half of the multiple. */
const JUMP = 3;
const MIN_JUMP = 64;
/** After this time, the higher number is the usual one. */
const MAX_JUMP_MS = 3_600_000;
/** Slots without a value after which a key is forgotten. */
const MAX_IDLE_SLOTS = 360;

/** The second highest number, since the sample in which a jump began lies between. */
const findUsual = (kept: readonly number[]): number => kept.toSorted((one, other) => other - one)[1] ?? 0;

/** Follows the number of different values of a key. */
export class Cardinality {
  readonly #domain: string;
  readonly #key: string;
  #by: NamedProxy;
  #example = '';
  #beganAtMs: number;
  readonly #hashes = new Set<number>();
  #values = 0;
  #idleSlots = 0;
  /** Different values in the last samples. */
  #kept: number[] = [];
  #jump: CardinalityJump | undefined;
  /** Different values in the last sample; 0 before the first. */
  latest = 0;

  constructor(domain: string, key: string, by: NamedProxy, nowMs: number) {
    this.#domain = domain;
    this.#key = key;
    this.#by = by;
    this.#beganAtMs = nowMs;
  }

  get jump(): CardinalityJump | undefined {
    return this.#jump;
  }

  add(value: string, by: NamedProxy): void {
    if (this.#values >= SAMPLE) return;
    this.#values++;
    const before = this.#hashes.size;
    this.#hashes.add(mixed(value.length, value.slice(0, MAX_TEXT_LENGTH)));
    if (this.#hashes.size === before) return;
    this.#by = by;
    this.#example = value;
  }

  /** Call every ten seconds; a sample may take several calls. @returns whether to keep the key */
  rotate(nowMs: number): boolean {
    this.#idleSlots = this.#values === 0 ? this.#idleSlots + 1 : 0;
    if (this.#values < SAMPLE) return this.#idleSlots < MAX_IDLE_SLOTS;
    this.#judge(this.#hashes.size, nowMs);
    this.#hashes.clear();
    this.#values = 0;
    this.#beganAtMs = nowMs;
    return true;
  }

  #judge(now: number, nowMs: number): void {
    this.latest = now;
    const before = this.#jump?.before ?? findUsual(this.#kept);
    const isHigh = now >= MIN_JUMP && now >= (this.#jump ? JUMP / 2 : JUMP) * before;
    const sinceMs = this.#jump?.sinceMs ?? this.#beganAtMs;
    if (isHigh && this.#kept.length >= MIN_SAMPLES && nowMs - sinceMs < MAX_JUMP_MS) {
      const example = keptText(this.#example);
      this.#jump = { domain: this.#domain, key: this.#key, by: this.#by, example, sinceMs, before, now };
      return;
    }
    if (this.#jump && isHigh) this.#kept = [];
    this.#jump = undefined;
    this.#kept.push(now);
    if (this.#kept.length > KEPT_SAMPLES) this.#kept.shift();
  }
}
