import { StoreUnavailable } from '../../engine/backends/backend.ts';
import type { Records } from '../../engine/backends/records.ts';
import type { AgentQuestion, ReplyTo } from './agent.ts';

/** A call of a method of `Records`, as a message. */
export type RecordsCall = {
  [M in keyof Records]: { readonly method: M; readonly args: Parameters<Records[M]> };
}[keyof Records];

type AskOne = <Q extends AgentQuestion>(question: Q) => Promise<ReplyTo<Q> | undefined>;

/** The records of a decider's store, for another process of the same service. */
export function remoteRecords(askOne: AskOne): Records {
  const call = async (message: RecordsCall): Promise<unknown> => {
    const reply = await askOne({ kind: 'records', call: message });
    if (!reply) throw new StoreUnavailable('no process that answers requests replied in time');
    if ('problem' in reply.answer) throw new StoreUnavailable(reply.answer.problem.detail);
    return reply.answer.found;
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
