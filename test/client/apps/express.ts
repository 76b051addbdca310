import type { AddressInfo } from 'node:net';
import express, { type Request } from 'express';
import { rateLimit } from 'weir-client/express';
import { OWN_REFUSAL, optionsFor, report } from './options.ts';

const options = optionsFor<Request>(
  (request, name) => request.get(name),
  (request) => request.path,
);

const app = express();
app.use(rateLimit(options));
app.get(
  '/own',
  rateLimit({ ...options, skip: () => false, onRefused: (_, __, response) => response.send(OWN_REFUSAL) }),
  (_, response) => {
    response.send('hello');
  },
);
app.get(['/', '/health'], (_, response) => {
  response.send('hello');
});
const server = app.listen(0, '127.0.0.1', () => report('express', (server.address() as AddressInfo).port)); // a TCP server
