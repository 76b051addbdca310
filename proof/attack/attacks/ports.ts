import { createHash } from 'node:crypto';
import { framed } from '../../../test/helpers/h2-client.ts';
import { type Attack, type Attacker, FIXED_MS, type Ports } from '../attack.ts';
import { CallBatch } from '../calls.ts';
import { get, post, postTo, readPage } from '../http1.ts';
import { ordinaryMessage } from '../messages.ts';
import { DOMAIN } from '../rules.ts';

/** Soft and hard limit on the service's open files in these attacks, the default of many systems. */
const OPEN_FILES = 1_024;
const SILENT = 1_500;

/** Clients that connect after the attacker, each on a new connection. */
const OTHERS = 20;
const FULL = 100;
/** Time after which the service has found unused connections idle. */
const UNTIL_IDLE_MS = 3_000;

const TOKEN = 'attack';
const ADMIN = { authorization: `Bearer ${TOKEN}` };

/** Whether a call on a new connection is answered. */
async function callsGrpc(attacker: Attacker, calls: CallBatch): Promise<boolean> {
  const client = await attacker.http2();
  await calls.send(client);
  await client.untilEnded(1);
  return client.ended === 1;
}

/** Connections that send nothing keep neither gRPC clients nor operators out. */
const silent =
  (of: (ports: Ports) => number): Attack['prepare'] =>
  () => {
    const calls = new CallBatch({ body: framed(ordinaryMessage('other')) }, 1);
    return async (attacker) => {
      for (let count = 0; count < SILENT; count++) await attacker.tcp(of(attacker.ports));
      for (let count = 0; count < OTHERS; count++) {
        if (!(await callsGrpc(attacker, calls))) attacker.fault('keeps gRPC clients out');
        const health = await readPage(attacker, attacker.ports.http, get('/healthcheck'));
        if (health !== 200) attacker.fault('keeps clients of PORT out');
        const page = await readPage(attacker, attacker.ports.debug, get('/metrics', ADMIN));
        if (page !== 200) attacker.fault('keeps operators out');
      }
    };
  };

async function idleOnGrpc(attacker: Attacker, calls: CallBatch): Promise<void> {
  for (let count = 0; count < FULL; count++) await callsGrpc(attacker, calls);
  await attacker.sleep(UNTIL_IDLE_MS);
  for (let count = 0; count < OTHERS; count++)
    if (!(await callsGrpc(attacker, calls))) attacker.fault('refuses connections because of idle ones');
}

async function idleOnHttp(attacker: Attacker): Promise<void> {
  for (let count = 0; count < FULL; count++) {
    const client = await attacker.tcp(attacker.ports.http);
    await client.send(get('/healthcheck', { connection: 'keep-alive' }));
  }
  await attacker.sleep(UNTIL_IDLE_MS);
  for (let count = 0; count < OTHERS; count++) {
    const status = await readPage(attacker, attacker.ports.http, get('/healthcheck'));
    if (status !== 200) attacker.fault('refuses connections because of idle ones');
  }
}

/** Clients without a token hold event streams and unfinished bodies; then Prometheus scrapes with a token. */
async function busyOnDebug(attacker: Attacker): Promise<void> {
  const [streams, bodies] = [0.6 * FULL, 0.6 * FULL];
  const { debug } = attacker.ports;
  for (let count = 0; count < streams; count++)
    await (await attacker.tcp(debug)).send(get('/api/v1/events', { connection: 'keep-alive' }));
  for (let count = 0; count < bodies; count++)
    await (await attacker.tcp(debug)).send(postTo('/api/v1/session', Buffer.from('{'), {}, 1_000));
  for (let count = 0; count < OTHERS; count++)
    if ((await readPage(attacker, debug, get('/metrics', ADMIN))) !== 200) attacker.fault('keeps Prometheus out');
}

/** Finds the address behind the hash that a page shows, by hashing all of a network. */
async function invertHash(attacker: Attacker): Promise<void> {
  const address = '10.1.77.5';
  const body = JSON.stringify({ domain: DOMAIN, descriptors: [{ entries: [{ key: 'named', value: address }] }] });
  await readPage(attacker, attacker.ports.http, post(Buffer.from(body)));
  let text = '';
  const client = await attacker.tcp(attacker.ports.debug, (bytes) => {
    text += bytes.toString('latin1');
  });
  await client.send(get('/stats'));
  await Promise.race([client.closed, attacker.over]);
  const [, shown = ''] = /named_#([\w-]+)/.exec(text) ?? [];
  if (text.includes(address) || shown === '') attacker.fault('shows no hash');
  for (let third = 0; third < 256; third++)
    for (let fourth = 0; fourth < 256; fourth++) {
      const digest = createHash('sha256').update(`10.1.${third}.${fourth}`).digest();
      if (digest.toString('hex').startsWith(shown) || digest.toString('base64url').startsWith(shown))
        attacker.fault('shows hashes that can be inverted');
    }
}

const limited = { openFiles: OPEN_FILES, timeMs: 2 * FIXED_MS } as const;

/** Connections that fill a port, and what pages show of callers. */
export const ports: readonly Attack[] = [
  {
    name: `${SILENT} silent connections to GRPC_PORT, ${OPEN_FILES} open files`,
    ...limited,
    prepare: silent(({ grpc }) => grpc),
  },
  {
    name: `${SILENT} silent connections to PORT, ${OPEN_FILES} open files`,
    ...limited,
    prepare: silent(({ http }) => http),
  },
  {
    name: `${SILENT} silent connections to DEBUG_PORT, ${OPEN_FILES} open files`,
    ...limited,
    prepare: silent(({ debug }) => debug),
  },
  {
    name: `${SILENT} silent connections to SITE_PORT, ${OPEN_FILES} open files`,
    ...limited,
    hasSites: true,
    prepare: silent(({ sites }) => sites),
  },
  {
    name: `GRPC_MAX_CONNECTIONS=${FULL}, full of idle connections`,
    env: { GRPC_MAX_CONNECTIONS: `${FULL}` },
    timeMs: FIXED_MS,
    prepare: () => {
      const calls = new CallBatch({ body: framed(ordinaryMessage('idle')) }, 1);
      return (attacker) => idleOnGrpc(attacker, calls);
    },
  },
  {
    name: `HTTP_MAX_CONNECTIONS=${FULL}, full of idle connections`,
    env: { HTTP_MAX_CONNECTIONS: `${FULL}` },
    timeMs: FIXED_MS,
    prepare: () => idleOnHttp,
  },
  {
    name: 'DEBUG_PORT, full of event streams and unfinished bodies without a token',
    env: { ADMIN_TOKEN: TOKEN },
    timeMs: FIXED_MS,
    prepare: () => busyOnDebug,
  },
  {
    name: 'HASH_KEYS: finding the value behind a hash of /stats',
    env: { HASH_KEYS: 'true' },
    timeMs: FIXED_MS,
    prepare: () => invertHash,
  },
];
