/** The work of matching a request, in units of the call queue; more is refused. */
const MAX_MATCH_UNITS = 512;

/** The request costs too much: it is refused before anything is counted. */
export class TooCostly extends Error {
  override readonly name = 'TooCostly';
}

/** The work of a call that its size does not show, in units of the call queue. */
export class RequestWork {
  readonly #onWork: ((units: number) => void) | undefined;
  #units = 0;
  #matchUnits = 0;

  /** @param onWork  charges work to the turn in which it is done; absent: the caller reads `units` */
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
   * To be called before patterns are tried.
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
