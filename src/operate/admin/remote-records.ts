import { StoreUnavailable } from '../../engine/backends/backend.ts';
import type { Records } from '../../engine/backends/records.ts';

/** A call of a method of `Records`, as a message. */
export type RecordsCall = {
  [M in keyof Records]: { readonly method: M; readonly args: Parameters<Records[M]> };
}[keyof Records];

/** What a call returned, or why it failed. */
type RecordsAnswer = { readonly found: unknown } | { readonly problem: { readonly detail: string } };

/**
 * The records of a decider's store, for another process of the same service.
 *
 * @param send  undefined: no decider replied in time
 */
export function remoteRecords(send: (call: RecordsCall) => Promise<RecordsAnswer | undefined>): Records {
  const call = async (message: RecordsCall): Promise<unknown> => {
    const answer = await send(message);
    if (!answer) throw new StoreUnavailable('no process that answers requests replied in time');
    if ('problem' in answer) throw new StoreUnavailable(answer.problem.detail);
    return answer.found;
  };
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
