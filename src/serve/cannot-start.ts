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
