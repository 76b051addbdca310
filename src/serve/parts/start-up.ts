/** The service cannot start; the message has the full reason. */
export class CannotStart extends Error {
  override readonly name = 'CannotStart';
}

/** Runs a step of start-up; errors become CannotStart with the name of the setting. */
export async function start<T>(variable: string, what: string, step: () => T | Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (error) {
    throw new CannotStart(`${variable}: ${what}: ${error instanceof Error ? error.message : error}`);
  }
}

/** A part of the service that must be closed. */
export interface Part {
  close(): void | Promise<void>;
}

/** Registers an open part to be closed with the others; returns it. */
export type Add = <P extends Part>(part: P) => P;

/**
 * Opens parts in sequence. `close` closes them once, in reverse order; so does a failure to open a part.
 *
 * @param open  calls `add` for each part as soon as it is open
 */
export async function openParts<T extends object>(
  open: (add: Add) => Promise<T>,
): Promise<T & { close(): Promise<void> }> {
  const parts: Part[] = [];
  const close = async (): Promise<void> => {
    for (const part of parts.splice(0).reverse()) await part.close();
  };
  const add: Add = (part) => {
    parts.push(part);
    return part;
  };
  try {
    return Object.assign(await open(add), { close });
  } catch (error) {
    await close();
    throw error;
  }
}
