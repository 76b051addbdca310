/** Input read in one turn over all connections of a server. A unit is an octet, or other work of about 0.1 µs. */
const UNITS_PER_TURN = 32_768;
/** Units for a request besides its octets, for Node's objects, its route and its response. */
export const REQUEST_UNITS = 512;
/** Units for a piece of a body, as a client chooses the size of its chunks. */
export const CHUNK_UNITS = 32;

/** Bounds the input handled in a turn. Connections beyond the bound wait, and are served in order. */
export class InputTurns {
  #unitsLeft = UNITS_PER_TURN;
  #waiting: (() => void)[] = [];
  #turn: NodeJS.Immediate | undefined;

  /** Whether more input may be handled in this turn. */
  get hasRoom(): boolean {
    return this.#unitsLeft > 0;
  }

  spend(units: number): void {
    this.#unitsLeft -= units;
    this.#turn ??= setImmediate(this.#begin);
  }

  /** @param proceed  called once, in a turn that has work left */
  wait(proceed: () => void): void {
    this.#waiting.push(proceed);
    this.#turn ??= setImmediate(this.#begin);
  }

  readonly #begin = (): void => {
    this.#turn = undefined;
    this.#unitsLeft = UNITS_PER_TURN;
    const waiting = this.#waiting;
    this.#waiting = [];
    let served = 0;
    while (served < waiting.length && this.hasRoom) waiting[served++]?.();
    if (served === waiting.length) return;
    this.#waiting = waiting.slice(served).concat(this.#waiting);
    this.#turn ??= setImmediate(this.#begin);
  };
}
