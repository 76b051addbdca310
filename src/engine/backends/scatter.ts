import { groupBy } from '../../base/group.ts';
import { type Eventual, isPending } from '../../base/later.ts';
import type { Operation, Replies, Reply, Unavailable } from './backend.ts';

const FIRST: readonly number[] = [0];
const noReply: Unavailable = { code: 'UNAVAILABLE', reason: 'the counters gave no reply' };

/**
 * Runs operations that one step cannot run together: concurrently, in parts. Replies are in the order of the
 * operations. This is the only place where replies are matched to operations by position across several calls.
 *
 * @param partOf  identifies the part of an operation
 * @param run     runs one part; `at` are the indices of its operations
 */
export function scatter<O extends Operation, P>(
  operations: readonly O[],
  partOf: (operation: O, at: number) => P,
  run: (part: P, operations: readonly O[], at: readonly number[]) => Eventual<Replies>,
): Eventual<Replies> {
  const [only] = operations;
  if (only && operations.length === 1) return run(partOf(only, 0), operations, FIRST);
  const parts = groupBy(operations.keys(), (at) => partOf(operations[at] as O, at)); // in range
  const gathered = new Array<Reply>(operations.length).fill(noReply);
  const gather = (places: readonly number[], replies: Replies): void => {
    for (const [at, place] of places.entries()) gathered[place] = replies[at] ?? noReply;
  };
  const waiting: PromiseLike<void>[] = [];
  for (const [part, places] of parts) {
    const own = places.flatMap((place) => operations[place] ?? []);
    const replies = run(part, own, places);
    if (isPending(replies)) waiting.push(replies.then((late) => gather(places, late)));
    else gather(places, replies);
  }
  return waiting.length === 0 ? gathered : Promise.all(waiting).then(() => gathered);
}
