import type { AddressInfo } from 'node:net';
import Koa, { type Context } from 'koa';
import { rateLimit } from 'weir-client/koa';
import { OWN_REFUSAL, optionsFor, report } from './options.ts';

const options = optionsFor<Context>(
  (context, name) => context.get(name) || undefined,
  (context) => context.path,
);

const app = new Koa();
app.use(rateLimit(options));
app.use(
  rateLimit({
    ...options,
    skip: ({ path }) => path !== '/own',
    onRefused: (_, context) => {
      context.body = OWN_REFUSAL;
    },
  }),
);
app.use((context) => {
  context.body = 'hello';
});
const server = app.listen(0, '127.0.0.1', () => report('koa', (server.address() as AddressInfo).port)); // a TCP server
