import type { FastifyPluginCallback, FastifyReply, FastifyRequest, preHandlerAsyncHookHandler } from 'fastify';
import { createGuard, type Passed, PROBLEM_TYPE } from './middleware/guard.ts';
import type { CostAfter, LimitOptions } from './middleware/options.ts';

/** Options of the plugin for Fastify. */
export interface FastifyLimitOptions extends LimitOptions<FastifyRequest>, CostAfter<FastifyRequest, FastifyReply> {}

/**
 * Limits the requests of all routes of a Fastify instance: `app.register(rateLimit, { client, domain: 'demo' })`.
 * Routes that are registered before it are not limited.
 */
export const rateLimit: FastifyPluginCallback<FastifyLimitOptions> = (app, options, done) => {
  const { hook, settle } = createHooks(options);
  app.addHook('onRequest', hook);
  if (options.costAfter) app.addHook('onResponse', settle);
  done();
};

// As fastify-plugin does: the hooks apply to the instance that registers the plugin.
Object.assign(rateLimit, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'weir-client',
});

/** Limits one route: `app.get('/', { onRequest: rateLimitHook({ client, domain: 'demo' }) }, handler)`. */
export const rateLimitHook = (options: LimitOptions<FastifyRequest>): preHandlerAsyncHookHandler =>
  createHooks(options).hook;

function createHooks(options: FastifyLimitOptions) {
  const guard = createGuard(options);
  const { costAfter } = options;
  const passed = new WeakMap<FastifyRequest, Passed>();
  return {
    async hook(request: FastifyRequest, reply: FastifyReply) {
      const { remoteAddress } = request.socket;
      const forwardedFor = request.headers['x-forwarded-for']?.toString();
      const passage = await guard(request, { peer: remoteAddress, forwardedFor, resolved: request.ip });
      for (const [name, value] of passage.fields) reply.header(name, value);
      if (!passage.ok) return reply.code(passage.status).type(PROBLEM_TYPE).send(JSON.stringify(passage.problem));
      if (costAfter) passed.set(request, passage);
      return undefined;
    },
    async settle(request: FastifyRequest, reply: FastifyReply) {
      await passed.get(request)?.settle((async () => costAfter?.(request, reply))());
    },
  };
}
