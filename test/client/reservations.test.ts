import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { freePort } from '../helpers/process.ts';
import { startTcpProxy } from '../helpers/tcp-proxy.ts';
import { closeAll, closeLater, openClient, type Service, startService, TIMEOUT_MS } from './service.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string): string => readFileSync(`${PROJECT}${path}`, 'utf8');

/** The section of the README, with its rules and its program. */
const [, section = ''] = /\n## Reservations\n(.*?)\n## /s.exec(read('client/README.md')) ?? [];
const [, written = ''] = /```yaml\n(.*?)```/s.exec(section) ?? [];
const rules = written.replace('unit: minute', 'unit: day'); // a minute could end during a test
const [, program = ''] = /```ts\n(.*?)```/s.exec(section) ?? [];

const LIMIT = 100_000;

/** Longer than an answer takes on a busy machine. */
const PATIENT = { timeoutMs: TIMEOUT_MS };

let service: Service;
beforeAll(async () => {
  service = await startService(`spend: all_or_nothing\n${rules}`);
});
afterAll(closeAll);

describe.each(['grpc', 'http'] as const)('over %s', (protocol) => {
  test('hits are reserved and charged once by their commit, and the rest is freed', async () => {
    const client = await openClient({ target: service[protocol] });
    const outcome = await client.reserve('demo', { tenant: `${protocol}-a` }, LIMIT, PATIENT);
    if (!outcome.ok) throw new Error('not reserved');
    const { reservation } = outcome;
    expect(reservation).toMatchObject({ hits: LIMIT, ttlMs: 60_000 });
    expect(await client.reserve('demo', { tenant: `${protocol}-a` }, 1, PATIENT)).toMatchObject({ ok: false });
    expect(await reservation.commit(400)).toEqual({ outcome: 'committed', charged: 400, overrun: 0 });
    expect(await reservation.commit(400)).toMatchObject({ outcome: 'repeated' });
    expect(await client.reserve('demo', { tenant: `${protocol}-a` }, LIMIT - 400, PATIENT)).toMatchObject({ ok: true });
  });

  test('a commit beyond the reservation is an overrun, and one of 0 frees the whole reservation', async () => {
    const client = await openClient({ target: service[protocol] });
    const first = await client.reserve('demo', { tenant: `${protocol}-b` }, 10, PATIENT);
    const second = await client.reserve('demo', { tenant: `${protocol}-b` }, LIMIT - 10, PATIENT);
    if (!first.ok || !second.ok) throw new Error('not reserved');
    expect(await second.reservation.commit(0)).toMatchObject({ outcome: 'committed', charged: 0 });
    expect(await first.reservation.commit(15)).toEqual({ outcome: 'committed', charged: 15, overrun: 5 });
    expect(await client.reserve('demo', { tenant: `${protocol}-b` }, LIMIT - 14, PATIENT)).toMatchObject({ ok: false });
    expect(await client.reserve('demo', { tenant: `${protocol}-b` }, LIMIT - 15, PATIENT)).toMatchObject({ ok: true });
  });
});

test('with targets of both kinds, reservations are committed at any of them', async () => {
  const client = await openClient({ target: [service.http, service.grpc] });
  for (let calls = 0; calls < 20; calls++) {
    const outcome = await client.reserve('demo', { tenant: `mixed-${calls}` }, 10, PATIENT);
    if (!outcome.ok) throw new Error('not reserved');
    expect(await outcome.reservation.commit(5)).toMatchObject({ charged: 5 });
  }
});

test('a commit is sent again until the service can be reached', async () => {
  let refused = 0;
  let isDown = false;
  const proxy = await startTcpProxy(service.grpcPort, ({ client, server, end }) => {
    if (!isDown) return void client.pipe(server).pipe(client);
    isDown = false; // from the next connection on
    refused++;
    end();
  });
  closeLater(proxy.close);
  const client = await openClient({ target: `127.0.0.1:${proxy.port}` });
  const outcome = await client.reserve('demo', { tenant: 'c' }, 10, PATIENT);
  if (!outcome.ok) throw new Error('not reserved');
  isDown = true;
  for (const { end } of proxy.connections) end();
  expect(await outcome.reservation.commit(7)).toEqual({ outcome: 'committed', charged: 7, overrun: 0 });
  expect(refused).toBe(1);
});

test('the program in the README reserves and commits', async () => {
  const patient = program.replace(', 1_000)', `, 1_000, ${JSON.stringify(PATIENT)})`);
  const own = patient.replace('localhost:8081', service.grpc);
  const args = ['--import', 'tsx', '--input-type', 'module', '--eval', own];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: PROJECT });
  expect(stdout).toBe('charged 640\n');
});

test.each(['', 'http://'])('without a service nothing is reserved: %s', async (scheme) => {
  const target = `${scheme}127.0.0.1:${await freePort()}`;
  const client = await openClient({ target }, { isUp: false });
  const error = { name: 'WeirUnavailable', kind: 'unavailable' };
  await expect(client.reserve('demo', { tenant: 'd' }, 1)).rejects.toMatchObject(error);
});

test.each([0, Number.NaN, 2 ** 32])('%s hits cannot be reserved', async (hits) => {
  const client = await openClient({ target: `127.0.0.1:${await freePort()}` }, { isUp: false });
  await expect(client.reserve('demo', { tenant: 'e' }, hits)).rejects.toThrow('hits must be a number from 1 to');
});
