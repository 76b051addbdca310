import type { Context, Middleware } from 'koa';
import { createGuard, PROBLEM_TYPE } from './middleware/guard.ts';
import type { CostAfter, LimitOptions } from './middleware/options.ts';
import { settleAtEnd } from './middleware/settle.ts';

/** Options of the middleware for Koa. */
export interface KoaLimitOptions extends LimitOptions<Context>, CostAfter<Context, Context> {}

/** Limits requests in Koa: `app.use(rateLimit({ client, domain: 'demo' }))`. */
export function rateLimit(options: KoaLimitOptions): Middleware {
  const guard = createGuard(options);
  const { costAfter } = options;
  return async (context, next) => {
    const { remoteAddress } = context.req.socket;
    const forwardedFor = context.get('x-forwarded-for') || undefined;
    const passage = await guard(context, { peer: remoteAddress, forwardedFor });
    for (const [name, value] of passage.fields) context.set(name, value);
    if (!passage.ok) {
      context.status = passage.status;
      context.body = JSON.stringify(passage.problem);
      context.type = PROBLEM_TYPE;
      return;
    }
    if (costAfter) settleAtEnd(context.res, passage, () => costAfter(context, context));
    await next();
  };
}
