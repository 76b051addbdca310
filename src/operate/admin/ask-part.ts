import type { NamedReply } from './agent.ts';

/** Asks every process that answers requests. */
export type AskParts = (question: {
  readonly kind: 'part';
  readonly part: string;
  readonly question: object;
}) => Promise<readonly NamedReply<unknown>[]>;

/** Asks an optional capability in every process. @returns the replies of those where it is on */
export async function askPart<R>(
  { ask }: { readonly ask: AskParts },
  part: string,
  question: object,
): Promise<readonly R[]> {
  const replies = await ask({ kind: 'part', part, question });
  return replies.flatMap(({ reply }) => (reply === undefined ? [] : [reply as R])); // by the same capability
}
