import { serve } from '@hono/node-server';
import { type Context, Hono } from 'hono';
import { rateLimit } from 'weir-client/hono';
import { optionsFor, report } from './options.ts';

const app = new Hono();
app.use(
  rateLimit(
    optionsFor<Context>(
      (context, name) => context.req.header(name),
      (context) => context.req.path,
    ),
  ),
);
app.get('/', () => new Response('hello'));
app.get('/health', (context) => context.text('hello'));
serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) => report(port));
