/** The service cannot start; the message says why, in full. */
export class CannotStart extends Error {
  override readonly name = 'CannotStart';
}

/** Does what a setting asks for; what is in the way is told with the setting's name. */
export async function start<T>(variable: string, what: string, doIt: () => T | Promise<T>): Promise<T> {
  try {
    return await doIt();
  } catch (error) {
    throw new CannotStart(`${variable}: ${what}: ${error instanceof Error ? error.message : error}`);
  }
}
