/** Maximum work of matching a request, in units of the call queue. */
const MAX_MATCH_UNITS = 512;

/** A request that costs too much, and is refused before anything is counted. */
export class TooCostly extends Error {
  override readonly name = 'TooCostly';
}

/** Work of a call beyond what its size shows, in units of the call queue. */
export class RequestWork {
  readonly #onWork: ((units: number) => void) | undefined;
  #units = 0;
  #matchUnits = 0;

  /** @param onWork  charges work to the turn in which it is done; without it the caller reads `units` */
  constructor(onWork?: (units: number) => void) {
    this.#onWork = onWork;
  }

  get units(): number {
    return this.#units;
  }

  add(units: number): void {
    this.#units += units;
    this.#onWork?.(units);
  }

  /**
   * Charges the work of trying patterns. Call before they are tried.
   *
   * @throws TooCostly
   */
  addMatching(units: number): void {
    this.#matchUnits += units;
    if (this.#matchUnits > MAX_MATCH_UNITS)
      throw new TooCostly('the values of the request are too long for the number of patterns in the rules');
    this.add(units);
  }
}
