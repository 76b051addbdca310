import { closeAll, type Service, startService } from '../../client/service.ts';
import { type Documented, documentOf } from '../../helpers/documented.ts';

const RULES = `
domain: demo
descriptors:
  - key: tenant
    descriptors:
      - key: request_id
        not_counted: hold
        rate_limit: { algorithm: in_flight, requests_per_unit: 1, ttl: 60s }
  - key: model
    descriptors:
      - key: request_id
        not_counted: hold
        rate_limit: { unit: day, requests_per_unit: 100, reserve: { ttl: 1500ms } }
`;

let service: Service;
let documented: Documented;
beforeAll(async () => {
  service = await startService(RULES);
  documented = await documentOf(service.debugPort);
});
afterAll(closeAll);

interface HttpAnswer {
  readonly status: number;
  readonly body: unknown;
}

/** Also compares message and answer with the OpenAPI document. */
async function post(method: string, message: unknown): Promise<HttpAnswer> {
  const answer = await fetch(`${service.http}/holds/${method}`, { method: 'POST', body: JSON.stringify(message) });
  const text = await answer.text();
  const isJson = answer.headers.get('content-type') === 'application/json';
  const body: unknown = isJson ? JSON.parse(text) : text;
  const operation = `POST /holds/${method}`;
  expect(documented.flawsOfBody(operation, message)).toEqual([]);
  expect(documented.flawsOfAnswer(operation, answer.status, body)).toEqual([]);
  return { status: answer.status, body };
}

const requestOf = (key: string, id: string, hitsAddend?: number) => ({
  domain: 'demo',
  descriptors: [
    {
      entries: [
        { key, value: 'a' },
        { key: 'request_id', value: id },
      ],
      ...(hitsAddend !== undefined && { hitsAddend }),
    },
  ],
});

test('slots are taken, waited for, renewed and released over HTTP', async () => {
  const slot = (id: string) => ({ request: requestOf('tenant', id) });
  const held = { status: 200, body: { held: true, ttl: '60s' } };
  expect(await post('acquire', slot('1'))).toMatchObject(held);
  const refused = await post('acquire', slot('2'));
  expect(refused).toMatchObject({
    status: 429,
    body: { held: false, retryAfter: expect.stringMatching(/^\d+(\.\d+)?s$/) },
  });
  expect(await post('renew', slot('1'))).toMatchObject(held);
  const waiting = post('acquire', { ...slot('2'), maxDelay: '60s' });
  expect(await post('release', slot('1'))).toMatchObject({ status: 200, body: {} });
  expect(await waiting).toMatchObject(held);
});

test('hits are reserved and committed over HTTP', async () => {
  const reserved = { status: 200, body: { reserved: true, hits: 80, ttl: '1.5s' } };
  expect(await post('reserve', { request: requestOf('model', '1', 80) })).toMatchObject(reserved);
  expect(await post('reserve', { request: requestOf('model', '2', 80) })).toMatchObject({
    status: 429,
    body: { reserved: false, hits: 0 },
  });
  expect(await post('commit', { request: requestOf('model', '1', 30) })).toMatchObject({
    status: 200,
    body: { outcome: expect.stringMatching(/^(COMMITTED|LATE)$/), charged: 30, overrun: 0 }, // late on a busy machine
  });
});

test.each([
  ['acquire', {}, 'request must not be empty'],
  ['acquire', { request: requestOf('tenant', '3'), maxDelay: '5' }, 'max_delay must be a duration'],
  ['acquire', { request: requestOf('tenant', '3'), maxDelay: '7200s' }, 'max_delay must be 0 to 3600 seconds'],
  ['reserve', { request: { domain: '', descriptors: [] } }, ''],
])('an invalid call of %s over HTTP gets 400 and the code of gRPC: %j', async (method, message, reason) => {
  const answer = await fetch(`${service.http}/holds/${method}`, { method: 'POST', body: JSON.stringify(message) });
  expect([answer.status, answer.headers.get('grpc-status')]).toEqual([400, '3']);
  expect(answer.headers.get('x-weir-reason')).toContain(reason);
});
