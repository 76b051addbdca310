import type { Context, MiddlewareHandler } from 'hono';
import { keyByAddress } from './middleware/address.ts';
import { createGuard, type Refused } from './middleware/guard.ts';
import type { CostAfter, LimitOptions } from './middleware/options.ts';
import { settleAtEnd, settleAtEndOfBody } from './middleware/settle.ts';

/** Options of the middleware for Hono. */
export interface HonoLimitOptions extends LimitOptions<Context>, CostAfter<Context, Response> {
  /** The connected address. Defaults to the socket's on Node; `peer`, `trustProxy` or `key` is required elsewhere. */
  readonly peer?: (context: Context) => string | undefined;
  /** Answers a refused request instead of the problem document. The headers are added. */
  readonly onRefused?: (refusal: Refused, context: Context) => Response | Promise<Response>;
}

/** Limits requests in Hono: `app.use(rateLimit({ client, domain: 'demo' }))`. */
export function rateLimit(options: HonoLimitOptions): MiddlewareHandler {
  const guard = createGuard({ key: keyByAddress, ...options });
  const { costAfter, onRefused, peer = socketAddress } = options;
  return async (context, next) => {
    const forwardedFor = context.req.header('x-forwarded-for');
    const passage = await guard(context, { peer: peer(context), forwardedFor });
    const addFields = () => {
      for (const [name, value] of passage.fields) context.header(name, value);
    };
    if (!passage.ok) {
      if (onRefused) {
        context.res = await onRefused(passage, context);
        addFields();
        return undefined;
      }
      addFields();
      // Hono's type requires specific numbers, which include 400, 429 and 503.
      const status = passage.status as 400 | 429 | 503;
      return context.body(passage.body, status, { 'content-type': passage.contentType });
    }
    await next();
    addFields(); // added here, since a response that a handler creates itself lacks them
    if (!costAfter) return undefined;
    const cost = () => costAfter(context, context.res);
    const outgoing = context.env?.outgoing; // Node's response, from @hono/node-server
    if (outgoing) settleAtEnd(outgoing, passage, cost);
    else context.res = settleAtEndOfBody(context.res, passage, cost);
    return undefined;
  };
}

/** Reads the environment that @hono/node-server passes on. */
function socketAddress({ env }: Context): string | undefined {
  return env?.incoming?.socket?.remoteAddress;
}
