import type { Records } from '../../engine/backends/records.ts';
import { type Finding, foundIn } from './problem.ts';

/** A call of a method of `Records`, as a message. */
export type RecordsCall = {
  [M in keyof Records]: { readonly method: M; readonly args: Parameters<Records[M]> };
}[keyof Records];

/**
 * The records of a decider's store, for another process of the same service. Its calls fail with `ApiProblem`.
 *
 * @param send  undefined: no decider replied in time
 */
export function remoteRecords(send: (call: RecordsCall) => Promise<Finding<unknown> | undefined>): Records {
  const call = async (message: RecordsCall): Promise<unknown> => foundIn(await send(message));
  // each method's result is what the same method of the decider's records returned
  return {
    append: async (...args) => void (await call({ method: 'append', args })),
    latest: (...args) => call({ method: 'latest', args }) as ReturnType<Records['latest']>,
    put: async (...args) => void (await call({ method: 'put', args })),
    putOnce: (...args) => call({ method: 'putOnce', args }) as ReturnType<Records['putOnce']>,
    remove: async (...args) => void (await call({ method: 'remove', args })),
    all: (...args) => call({ method: 'all', args }) as ReturnType<Records['all']>,
  };
}

/** Runs a call that another process has sent. */
export const runRecordsCall = (records: Records, { method, args }: RecordsCall): Promise<unknown> =>
  (records[method] as (...args: readonly unknown[]) => Promise<unknown>)(...args); // a RecordsCall pairs them
