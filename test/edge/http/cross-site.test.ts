import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { apiRoutes } from '../../../src/edge/http/api.ts';
import { type HttpServer, startHttpServer } from '../../../src/edge/http/server.ts';
import type { RlsService } from '../../../src/edge/rls/service.ts';
import { overloadOf } from '../../helpers/overload.ts';

let server: HttpServer;
let calls: number;
let refusals: number;
beforeEach(async () => {
  calls = 0;
  refusals = 0;
  const service: RlsService = {
    async shouldRateLimit(_request, _caller, reply) {
      calls++;
      reply({ response: { overall_code: 1, statuses: [], response_headers_to_add: [] } });
    },
  };
  const shedding = overloadOf({ refusal: () => void refusals++ });
  const routes = apiRoutes(service, () => ({ ready: true, reasons: [] }), shedding);
  server = await startHttpServer({ host: '127.0.0.1', port: 0 }, routes, () => {});
});
afterEach(() => server.close(0));

async function post(headers: Record<string, string>, path = '/json') {
  const sent = request({ host: '127.0.0.1', port: server.port, path, method: 'POST', headers, agent: false });
  sent.end('{"domain": "d"}');
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: response.statusCode, headers: response.headers, body: await text(response) };
}

test.each<[string, Record<string, string>]>([
  ['a backend', {}],
  ['a page of this server', { 'sec-fetch-site': 'same-origin', origin: 'http://weir:8080', host: 'weir:8080' }],
  ['what a user typed', { 'sec-fetch-site': 'none' }],
  ['a page of this server over plain HTTP', { origin: 'http://10.0.0.1:8080', host: '10.0.0.1:8080' }],
  ['a page of this server behind a TLS proxy', { origin: 'https://weir.example', host: 'weir.example' }],
  ['a page of this server with the port spelled out', { origin: 'https://weir.example', host: 'Weir.Example:443' }],
])('/json answers %s', async (_, headers) => {
  expect(await post(headers)).toMatchObject({ status: 200 });
  expect(calls).toBe(1);
});

test.each<[Record<string, string>, string]>([
  [{ 'sec-fetch-site': 'cross-site' }, "Sec-Fetch-Site must be same-origin or none, got 'cross-site'"],
  [{ 'sec-fetch-site': 'same-site' }, "Sec-Fetch-Site must be same-origin or none, got 'same-site'"],
  [{ 'sec-fetch-site': 'anything' }, "Sec-Fetch-Site must be same-origin or none, got 'anything'"],
  [
    { origin: 'https://evil.example', host: 'weir' },
    "Origin must be that of the Host 'weir', got 'https://evil.example'",
  ],
  [
    { origin: 'http://weir:8081', host: 'weir:8080' },
    "Origin must be that of the Host 'weir:8080', got 'http://weir:8081'",
  ],
  [{ origin: 'null', host: 'weir' }, "Origin must be that of the Host 'weir', got 'null'"],
  [{ origin: 'null', host: 'null' }, "Origin must be that of the Host 'null', got 'null'"],
  [{ origin: 'file://', host: 'weir' }, "Origin must be that of the Host 'weir', got 'file://'"],
  [
    { origin: 'http://weir.evil.example', host: 'weir' },
    "Origin must be that of the Host 'weir', got 'http://weir.evil.example'",
  ],
  [
    { origin: 'http://weir@evil.example', host: 'weir' },
    "Origin must be that of the Host 'weir', got 'http://weir@evil.example'",
  ],
  [
    { origin: 'http://weir', host: 'weir', 'sec-fetch-site': 'cross-site' },
    "Sec-Fetch-Site must be same-origin or none, got 'cross-site'",
  ],
])('/json refuses a request from a page of another site, and counts nothing: %j', async (headers, reason) => {
  expect(await post(headers)).toEqual({
    status: 403,
    headers: expect.objectContaining({ 'x-weir-reason': `sent by a page of another site: ${reason}` }),
    body: `Forbidden: sent by a page of another site: ${reason}\n`,
  });
  expect([calls, refusals]).toEqual([0, 0]);
});

test('/healthcheck answers pages of other sites, since it changes nothing', async () => {
  expect(await post({ 'sec-fetch-site': 'cross-site' }, '/healthcheck')).toMatchObject({ status: 200 });
});
