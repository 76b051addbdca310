import type { AddressInfo } from 'node:net';
import Koa, { type Context } from 'koa';
import { rateLimit } from 'weir-client/koa';
import { optionsFor, report } from './options.ts';

const app = new Koa();
app.use(
  rateLimit(
    optionsFor<Context>(
      (context, name) => context.get(name) || undefined,
      (context) => context.path,
    ),
  ),
);
app.use((context) => {
  context.body = 'hello';
});
const server = app.listen(0, '127.0.0.1', () => report((server.address() as AddressInfo).port)); // a TCP server
