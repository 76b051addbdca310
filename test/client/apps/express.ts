import type { AddressInfo } from 'node:net';
import express, { type Request } from 'express';
import { rateLimit } from 'weir-client/express';
import { optionsFor, report } from './options.ts';

const app = express();
app.use(
  rateLimit(
    optionsFor<Request>(
      (request, name) => request.get(name),
      (request) => request.path,
    ),
  ),
);
app.get(['/', '/health'], (_, response) => {
  response.send('hello');
});
const server = app.listen(0, '127.0.0.1', () => report((server.address() as AddressInfo).port)); // a TCP server
