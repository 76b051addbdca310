import '../../../helpers/realm.ts';
import { connect } from 'node:net';
import fc from 'fast-check';
import { httpListener } from '../../../../src/parts/envoy/whole-envoy.ts';
import { normalizePath } from '../../../../src/parts/lab/mapping/path.ts';
import { runEnvoy } from '../../../helpers/envoy.ts';
import { freePort } from '../../../helpers/process.ts';

/** Parts of paths; Envoy leaves `/` alone as `//`, which the generator avoids by a name at the end. */
const PARTS = [
  '/',
  '//',
  '.',
  '..',
  '/../',
  '/./',
  '%2e',
  '%2E',
  'a',
  '%6c',
  '%7e',
  '%2f',
  '%5c',
  '\\',
  '%',
  '%4',
  '|{"^',
  '%c3%a9',
];

const MANAGER = '                normalize_path: true\n                merge_slashes: true\n';

/** Sends a path as it is, and returns what Envoy makes of it. */
const throughEnvoy = (port: number, path: string): Promise<string | undefined> =>
  new Promise((resolve, reject) => {
    let answer = '';
    const socket = connect(port, '127.0.0.1', () => socket.write(`GET ${path} HTTP/1.1\r\nhost: shop\r\n\r\n`));
    socket.on('data', (data) => {
      answer += data;
      if (!answer.includes('\r\n\r\n')) return;
      resolve(/^x-path: (.*)\r$/m.exec(answer)?.[1]);
      socket.destroy();
    });
    socket.once('error', reject);
  });

test('paths have the form that Envoy gives them', async () => {
  const port = await freePort();
  const action = `direct_response: { status: 200 }
                          response_headers_to_add: [{ header: { key: x-path, value: "%REQ(:path)%" } }]`;
  const listener = httpListener({ name: 'paths', host: '127.0.0.1', port, manager: MANAGER, action });
  const envoy = await runEnvoy(`static_resources:\n  listeners:\n${listener}`, [port]);
  try {
    const paths = fc
      .array(fc.constantFrom(...PARTS), { maxLength: 6 })
      .map((parts) => `/${parts.join('')}/login?a=%6c`);
    await fc.assert(
      fc.asyncProperty(paths, async (path) => {
        expect([path, normalizePath(path)]).toEqual([path, await throughEnvoy(port, path)]);
      }),
      { numRuns: 200 },
    );
  } finally {
    await envoy.stop();
  }
});
