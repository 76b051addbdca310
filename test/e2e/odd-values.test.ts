import { mkdtempSync, writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Envoy, startEnvoy } from '../helpers/envoy.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const RULES = `domain: demo
descriptors:
  - key: path
    value: /login*
    descriptors: [{ key: remote_address, rate_limit: { unit: day, requests_per_unit: 0 } }]
  - { key: user, rate_limit: { unit: day, requests_per_unit: 1 } }
`;

describe.each(['h2', 'grpc-js'])('behind an Envoy that fails open, with %s', (GRPC_TRANSPORT) => {
  let weir: Weir;
  let envoy: Envoy;
  beforeAll(async () => {
    const rules = join(mkdtempSync(join(tmpdir(), 'odd-')), 'rules.yaml');
    writeFileSync(rules, RULES);
    weir = await startWeir({ GRPC_TRANSPORT }, { args: ['--rules', rules] });
    envoy = await startEnvoy(weir.grpcPort);
  });
  afterAll(async () => {
    await envoy?.stop();
    await weir?.stop();
  });

  /** Sends the user's octets as Latin-1. @returns the status */
  const statusOf = (path: string, user: string): Promise<number | undefined> =>
    new Promise((resolve, reject) => {
      const options = { host: '127.0.0.1', port: envoy.portOf('10000'), path, headers: { 'x-user': user } };
      get(options, (response) => response.resume().once('end', () => resolve(response.statusCode))).once(
        'error',
        reject,
      );
    });

  test.each([
    ['is not UTF-8', '/login', '\xff'],
    ['is longer than any text that Weir keeps', '/login', 'a'.repeat(20_000)],
    ['is in a long path', `/login?${'a'.repeat(20_000)}`, 'ann'],
  ])('a client does not escape its other limits by a value that %s', async (_, path, user) => {
    expect(await statusOf(path, user)).toBe(429);
  });

  test.each([
    ['not UTF-8', 'user \xff'],
    ['long', 'b'.repeat(20_000)],
  ])('a value that is %s has a limit of its own', async (_, user) => {
    expect([await statusOf('/', user), await statusOf('/', user)]).toEqual([200, 429]);
  });
});
