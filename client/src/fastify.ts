import type { FastifyPluginCallback, FastifyReply, FastifyRequest, preHandlerAsyncHookHandler } from 'fastify';
import { createGuard, type Refused } from './middleware/guard.ts';
import type { CostAfter, LimitOptions } from './middleware/options.ts';
import { settleAtEnd } from './middleware/settle.ts';

/** Options of the plugin for Fastify. */
export interface FastifyLimitOptions extends LimitOptions<FastifyRequest>, CostAfter<FastifyRequest, FastifyReply> {
  /**
   * Answers a refused request instead of the problem document: sends the reply, or returns its body. The reply has the
   * status and the headers.
   */
  readonly onRefused?: (refusal: Refused, request: FastifyRequest, reply: FastifyReply) => unknown;
}

/**
 * Limits the requests of all routes of a Fastify instance: `app.register(rateLimit, { client, domain: 'demo' })`.
 * Routes that are registered before it are limited as well; `skip` exempts requests.
 */
export const rateLimit: FastifyPluginCallback<FastifyLimitOptions> = (app, options, done) => {
  app.addHook('onRequest', createHook(options));
  done();
};

// Like fastify-plugin: the hooks apply to the instance that registers the plugin.
Object.assign(rateLimit, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'weir-client',
});

/** Limits one route: `app.get('/', { onRequest: rateLimitHook({ client, domain: 'demo' }) }, handler)`. */
export const rateLimitHook = (options: FastifyLimitOptions): preHandlerAsyncHookHandler => createHook(options);

function createHook(options: FastifyLimitOptions) {
  const guard = createGuard(options);
  const { costAfter, onRefused } = options;
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const { remoteAddress } = request.socket;
    const forwardedFor = request.headers['x-forwarded-for']?.toString();
    const passage = await guard(request, { peer: remoteAddress, forwardedFor, resolved: request.ip });
    for (const [name, value] of passage.fields) reply.header(name, value);
    if (!passage.ok) {
      reply.code(passage.status);
      if (!onRefused) return reply.type(passage.contentType).send(passage.body);
      const body = await onRefused(passage, request, reply);
      return reply.sent ? reply : reply.send(body);
    }
    if (costAfter) settleAtEnd(reply.raw, passage, () => costAfter(request, reply)); // onResponse misses clients that leave
    return undefined;
  };
}
