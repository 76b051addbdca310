import type { ServerResponse } from 'node:http';
import type { Passed } from './guard.ts';

/** The final cost of a request. */
type TotalCost = Parameters<Passed['settle']>[0];

/** Counts the cost when the response ends or its client leaves; at once if it has already ended. */
export function settleAtEnd(response: ServerResponse, passage: Passed, cost: TotalCost): void {
  const settle = () => void passage.settle(cost);
  if (response.destroyed) settle();
  else response.once('close', settle);
}

/** The same without a response of Node: at the end of the body, or when its reader cancels it. */
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
