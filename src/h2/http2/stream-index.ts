import type { Stream } from './stream.ts';

const MIN_SLOTS = 16;
/** Slots that are never released, so that the array (1 KiB) does not grow for each burst. */
const MAX_KEPT_SLOTS = 128;
/** Ratio of slots to streams above which the array is halved, so that the charge for streams covers their slots. */
const MAX_SLOTS_PER_STREAM = 8;

/**
 * The open streams of a connection by number. Clients number their streams consecutively, so nearly all fit an array
 * with one slot per number modulo its length. A stream that outlasts a whole round of the array moves to a map.
 *
 * A `Map` alone is far more expensive. Deleted entries fill it until it is copied, and a copied table keeps a reference
 * to its copy. Once one table is in the old generation, every later one survives the collections of the young
 * generation, and so does every stream that was open at the time.
 */
export class StreamIndex {
  /** Slots by number; undefined before the first stream. */
  #slots: (Stream | undefined)[] | undefined;
  #mask = 0;
  #lasting: Map<number, Stream> | undefined;
  size = 0;

  get(id: number): Stream | undefined {
    const slots = this.#slots;
    if (slots === undefined) return undefined;
    const stream = slots[(id >>> 1) & this.#mask];
    return stream?.id === id ? stream : this.#lasting?.get(id);
  }

  /** Adds a stream whose number is absent. */
  add(stream: Stream): void {
    const slots = this.#slots ?? this.#resize(MIN_SLOTS);
    const at = (stream.id >>> 1) & this.#mask;
    const occupant = slots[at];
    slots[at] = stream;
    this.size++;
    if (occupant === undefined) return;
    this.#lasting ??= new Map();
    this.#lasting.set(occupant.id, occupant);
    if (this.size * 2 > slots.length) this.#resize(slots.length * 2);
  }

  /** Removes a stream; does nothing if it is absent. */
  delete(id: number): void {
    const slots = this.#slots;
    if (slots === undefined) return;
    const at = (id >>> 1) & this.#mask;
    if (slots[at]?.id === id) slots[at] = undefined;
    else if (!this.#lasting?.delete(id)) return;
    this.size--;
    if (this.size * MAX_SLOTS_PER_STREAM >= slots.length) return;
    if (slots.length > MAX_KEPT_SLOTS) this.#resize(slots.length / 2);
    else if (this.size === 0) this.#lasting = undefined;
  }

  /** The open streams in order of their numbers. */
  all(): readonly Stream[] {
    return this.#unordered().sort((one, other) => one.id - other.id);
  }

  #unordered(): Stream[] {
    const streams = [...(this.#slots ?? []), ...(this.#lasting?.values() ?? [])];
    return streams.filter((stream) => stream !== undefined);
  }

  #resize(slotCount: number): (Stream | undefined)[] {
    const streams = this.#unordered();
    const slots = new Array<Stream | undefined>(slotCount).fill(undefined);
    this.#slots = slots;
    this.#mask = slotCount - 1;
    this.#lasting = undefined;
    this.size = 0;
    for (const stream of streams) this.add(stream);
    return slots;
  }
}
