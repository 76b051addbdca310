import { serve } from '@hono/node-server';
import { type Context, Hono } from 'hono';
import { rateLimit } from 'weir-client/hono';
import { OWN_REFUSAL, optionsFor, report } from './options.ts';

const options = optionsFor<Context>(
  (context, name) => context.req.header(name),
  (context) => context.req.path,
);

const app = new Hono();
app.use(rateLimit(options));
app.use(
  '/own',
  rateLimit({ ...options, skip: () => false, onRefused: ({ status }) => new Response(OWN_REFUSAL, { status }) }),
);
app.get('/own', (context) => context.text('hello'));
app.get('/', () => new Response('hello'));
app.get('/health', (context) => context.text('hello'));
serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) => report('hono', port));
