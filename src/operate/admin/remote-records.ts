import type { Records } from '../../engine/backends/records.ts';
import { type Finding, foundIn } from './problem.ts';

/** A call of a method of `T`, as a message. */
export type MethodCall<T> = {
  [M in keyof T]: T[M] extends (...args: infer A) => unknown ? { readonly method: M; readonly args: A } : never;
}[keyof T];

/** All methods of `Records`: the compiler asks for each. */
const methods = { append: 0, latest: 0, put: 0, putOnce: 0, remove: 0, all: 0, nowMs: 0 } satisfies Record<
  keyof Records,
  0
>;

/**
 * The records of a decider's store, for another process of the same service. Its calls fail with `ApiProblem`.
 *
 * @param send  undefined: no decider replied in time
 */
export function remoteRecords(send: (call: MethodCall<Records>) => Promise<Finding<unknown> | undefined>): Records {
  const call = async (message: object): Promise<unknown> => foundIn(await send(message as MethodCall<Records>)); // as below
  const calls = Object.keys(methods).map((method) => [method, (...args: readonly unknown[]) => call({ method, args })]);
  return Object.fromEntries(calls) as Records; // each result is what the same method of the decider's records returned
}

/** Runs a call that another process has sent. */
export const runCall = async <T extends object>(target: T, { method, args }: MethodCall<T>): Promise<unknown> =>
  Reflect.apply(target[method] as () => unknown, target, args as readonly unknown[]); // a MethodCall pairs them
