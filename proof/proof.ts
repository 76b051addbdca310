/** A program that measures or checks the project, as its file exports it. */
export interface Proof {
  /** The text of --help. */
  readonly usage: string;
  /** @throws Error  an argument is invalid, or the proof could not run; the message says why */
  run(args: readonly string[]): Promise<void>;
}
