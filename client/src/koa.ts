import type { Context, Middleware } from 'koa';
import { createGuard, type Refused } from './middleware/guard.ts';
import type { CostAfter, LimitOptions } from './middleware/options.ts';
import { settleAtEnd } from './middleware/settle.ts';

/** Options of the middleware for Koa. */
export interface KoaLimitOptions extends LimitOptions<Context>, CostAfter<Context, Context> {
  /** Answers a refused request instead of the problem document. The context has the status and the headers. */
  readonly onRefused?: (refusal: Refused, context: Context) => unknown;
}

/** Limits requests in Koa: `app.use(rateLimit({ client, domain: 'demo' }))`. */
export function rateLimit(options: KoaLimitOptions): Middleware {
  const guard = createGuard(options);
  const { costAfter, onRefused } = options;
  return async (context, next) => {
    const { remoteAddress } = context.req.socket;
    const forwardedFor = context.get('x-forwarded-for') || undefined;
    const passage = await guard(context, { peer: remoteAddress, forwardedFor, resolved: context.ip });
    for (const [name, value] of passage.fields) context.set(name, value);
    if (!passage.ok) {
      context.status = passage.status;
      if (onRefused) return void (await onRefused(passage, context));
      context.body = passage.body;
      context.type = passage.contentType;
      return;
    }
    if (costAfter) settleAtEnd(context.res, passage, () => costAfter(context, context));
    await next();
  };
}
