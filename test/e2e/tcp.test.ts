import { mkdtemp, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Envoy, startEnvoy } from '../helpers/envoy.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

// A sliding window, so that no window ends during a test.
const RULES = `
domain: demo
descriptors:
  - key: connection_from
    rate_limit: { unit: day, requests_per_unit: 3, algorithm: sliding_window_log }
`;

/** The answer of the upstream in envoy.yaml. */
const PAGE = 'hello from upstream';

let folder: string;
let weir: Weir;
let envoy: Envoy;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rules-'));
  await writeFile(join(folder, 'rules.yaml'), RULES);
  weir = await launchWeir();
  envoy = await startEnvoy(weir.grpcPort);
  await found(envoy);
});

afterAll(async () => {
  await envoy?.stop();
  await weir?.stop();
});

test('three connections of a client pass data and the fourth is closed without any, without affecting another client', async () => {
  expect(await connections(4, '127.0.0.2')).toEqual(['hello', 'hello', 'hello', 'closed']);
  expect(await connections(1, '127.0.0.3')).toEqual(['hello']);
});

test('three of ten concurrent connections pass', async () => {
  const ends = await Promise.all(Array.from({ length: 10 }, () => converse(envoy, '127.0.0.4')));
  expect(ends.filter((end) => end === 'hello')).toHaveLength(3);
  expect(ends.filter((end) => end === 'closed')).toHaveLength(7);
});

test('without Weir, every connection passes, or none with failure_mode_deny, and limits apply again when Weir is back', async () => {
  const denying = await startEnvoy(weir.grpcPort, (config) =>
    config.replaceAll('failure_mode_deny: false', 'failure_mode_deny: true'),
  );
  try {
    await found(denying);
    expect(await converse(denying, '127.0.0.5')).toBe('hello');
    await weir.stop();
    expect(await connections(4, '127.0.0.6')).toEqual(['hello', 'hello', 'hello', 'hello']);
    expect(await converse(denying, '127.0.0.6')).toBe('closed');

    weir = await launchWeir(weir);
    await Promise.all([found(envoy), found(denying)]);
    expect(await converse(denying, '127.0.0.6')).toBe('hello');
    expect(await connections(3, '127.0.0.6')).toEqual(['hello', 'hello', 'closed']);
  } finally {
    await denying.stop();
  }
});

const launchWeir = (before?: Weir) =>
  startWeir(before && { GRPC_PORT: String(before.grpcPort) }, { args: ['--rules', join(folder, 'rules.yaml')] });

/** Waits until Envoy has connected to Weir: the listener that fails closed answers only then. */
const found = (proxy: Envoy): Promise<void> =>
  proxy.waitFor(async () => (await proxy.get('10001', '/')).status === 200);

/** Opens connections one after the other. @returns how each ended */
async function connections(count: number, from: string): Promise<readonly string[]> {
  const ends = [];
  for (let made = 0; made < count; made++) ends.push(await converse(envoy, from));
  return ends;
}

/**
 * Connects to the TCP listener from this address of the machine and requests the upstream's page: `hello` if it
 * arrives, `closed` if the connection ends without data.
 */
function converse(proxy: Envoy, from: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let received = '';
    const socket = connect({ host: '127.0.0.1', port: proxy.portOf('10003'), localAddress: from });
    socket.setEncoding('utf8').on('data', (text: string) => {
      received += text;
      if (received.endsWith(PAGE)) socket.destroy();
    });
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ECONNRESET' && error.code !== 'EPIPE') reject(error);
    });
    socket.on('close', () => resolve(received === '' ? 'closed' : received.endsWith(PAGE) ? 'hello' : received));
    socket.write('GET / HTTP/1.1\r\nhost: upstream\r\n\r\n');
  });
}
