import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Envoy, startEnvoy } from '../helpers/envoy.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const PAGE = fileURLToPath(new URL('../../docs/layers.md', import.meta.url));

let folder: string;
let weir: Weir;
let envoy: Envoy;

beforeAll(async () => {
  const page = await readFile(PAGE, 'utf8');
  const [listener = '', rules = ''] = Array.from(page.matchAll(/^```yaml\n(.*?)^```/gms), ([, text = '']) => text);
  folder = await mkdtemp(join(tmpdir(), 'layers-'));
  await writeFile(join(folder, 'rules.yaml'), rules);
  weir = await startWeir({}, { args: ['--rules', join(folder, 'rules.yaml')] });
  envoy = await startEnvoy(weir.grpcPort, (config) =>
    config.replace(/^ {4}- name: connections\n.*?(?=\n\n)/ms, listener.trimEnd().replace(/^/gm, '    ')),
  );
  await envoy.waitFor(async () => (await envoy.get('10001', '/')).status === 200); // Envoy has connected to Weir
});

afterAll(async () => {
  await envoy?.stop();
  await weir?.stop();
});

test('the rules in docs/layers.md have no warnings', () => expect(weir.output()).not.toContain('warning'));

test('a user is refused by status on a connection that passed', async () => {
  const statuses = new Set<number>();
  for (let asked = 0; asked < 200; asked++) statuses.add((await envoy.get('10003', '/', 'ann')).status);
  expect([...statuses]).toEqual([200, 429]);
});

test('a client that opens a connection for every request is soon disconnected', async () => {
  const ends = await Promise.all(Array.from({ length: 100 }, () => onOwnConnection(envoy.portOf('10003'))));
  expect([...new Set(ends)].sort()).toEqual([200, 'closed']);
});

/** The status of one request on a new connection, or that the connection was closed instead. */
function onOwnConnection(port: number): Promise<number | 'closed'> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, agent: false, localAddress: '127.0.0.2' }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    sent.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNRESET' || error.code === 'EPIPE') resolve('closed');
      else reject(error);
    });
    sent.end();
  });
}
