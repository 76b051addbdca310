import type { Context, MiddlewareHandler } from 'hono';
import { createGuard, PROBLEM_TYPE } from './middleware/guard.ts';
import type { CostAfter, LimitOptions } from './middleware/options.ts';
import { settleAtEnd, settleAtEndOfBody } from './middleware/settle.ts';

/** Options of the middleware for Hono. */
export interface HonoLimitOptions extends LimitOptions<Context>, CostAfter<Context, Response> {
  /** The address that has connected. Default: that of the socket, on Node. */
  readonly peer?: (context: Context) => string | undefined;
}

/** Limits requests in Hono: `app.use(rateLimit({ client, domain: 'demo' }))`. */
export function rateLimit(options: HonoLimitOptions): MiddlewareHandler {
  const guard = createGuard(options);
  const { costAfter, peer = socketAddress } = options;
  return async (context, next) => {
    const forwardedFor = context.req.header('x-forwarded-for');
    const passage = await guard(context, { peer: peer(context), forwardedFor });
    const addFields = () => {
      for (const [name, value] of passage.fields) context.header(name, value);
    };
    if (!passage.ok) {
      addFields();
      // Hono's type lists the numbers; 400, 429 and 503 are among them.
      const status = passage.status as 400 | 429 | 503;
      return context.body(JSON.stringify(passage.problem), status, { 'content-type': PROBLEM_TYPE });
    }
    await next();
    addFields(); // to the response: one that a handler makes by itself has no others
    if (!costAfter) return undefined;
    const cost = () => costAfter(context, context.res);
    const outgoing = context.env?.outgoing; // the response of Node, from @hono/node-server
    if (outgoing) settleAtEnd(outgoing, passage, cost);
    else context.res = settleAtEndOfBody(context.res, passage, cost);
    return undefined;
  };
}

/** What @hono/node-server passes on as the environment. */
function socketAddress({ env }: Context): string | undefined {
  return env?.incoming?.socket?.remoteAddress;
}
