import type { ServerResponse } from 'node:http';
import type { Passed } from './guard.ts';

/** What a request has cost after all. */
export type TotalCost = Parameters<Passed['settle']>[0];

/** Counts the cost when the response ends, sent or cut off by its client; at once if that has left already. */
export function settleAtEnd(response: ServerResponse, passage: Passed, cost: TotalCost): void {
  const settle = () => void passage.settle(cost);
  if (response.destroyed) settle();
  else response.once('close', settle);
}

/** The same where there is no response of Node: the end of its body, or that its reader cancels it. */
export function settleAtEndOfBody(response: Response, passage: Passed, cost: TotalCost): Response {
  const settle = () => void passage.settle(cost);
  const reader = response.body?.getReader();
  if (!reader) {
    settle();
    return response;
  }
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (!done) return controller.enqueue(value);
        controller.close();
      } catch (error) {
        controller.error(error);
      }
      settle();
    },
    cancel(reason) {
      settle();
      return reader.cancel(reason);
    },
  });
  return new Response(body, response);
}
