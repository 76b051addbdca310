import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Envoy, startEnvoy } from '../helpers/envoy.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const PAGE = readFileSync(fileURLToPath(new URL('../../docs/responses.md', import.meta.url)), 'utf8');

/** The configuration of local replies on the page about responses. */
const LOCAL_REPLIES = /<!-- envoy -->\n```yaml\n([^`]*)```/.exec(PAGE)?.[1] ?? '';

const RULES = `domain: demo
descriptors:
  - { key: user, rate_limit: { unit: day, requests_per_unit: 0 }, response: {} }
  - key: user
    value: plain
    rate_limit: { unit: day, requests_per_unit: 0 }
  - key: api_key
    rate_limit: { unit: day, requests_per_unit: 0 }
    response: { body: '{"retry_after": {retry_after}, "limit": "{limit}"}', headers: { X-Plan: free } }
  - key: page
    rate_limit: { unit: day, requests_per_unit: 0 }
    response: { body: slow down, content_type: text/html, headers: { Location: 'https://example.com/slow' } }
`;

/** envoy.yaml with a descriptor for each of these headers, and the page's local replies on one listener. */
function edited(config: string): string {
  const action = (key: string) =>
    `                        - actions:\n                            - request_headers: { header_name: x-${key}, descriptor_key: ${key} }\n`;
  const replies = LOCAL_REPLIES.split('\n')
    .map((line) => (line === '' ? line : `                ${line}`))
    .join('\n');
  return config
    .replace(/( +- actions: # \("path", <path and query>\)\n)/, `${action('api_key')}${action('page')}$1`)
    .replace('stat_prefix: fails_closed\n', `stat_prefix: fails_closed\n${replies}`);
}

describe('behind Envoy', () => {
  const folder = mkdtempSync(join(tmpdir(), 'responses-'));
  let weir: Weir;
  let envoy: Envoy;
  beforeAll(async () => {
    writeFileSync(join(folder, 'rules.yaml'), RULES);
    weir = await startWeir(
      { WORKERS: '1', RESPONSE_RULE_METADATA: 'true' },
      { args: ['--rules', join(folder, 'rules.yaml')] },
    );
    envoy = await startEnvoy(weir.grpcPort, edited);
  });
  afterAll(async () => {
    await envoy?.stop();
    await weir?.stop();
    rmSync(folder, { recursive: true });
  });

  const get = async (header: string, listener = '10000', value = 'a') => {
    const response = await fetch(`http://127.0.0.1:${envoy.portOf(listener)}/`, {
      headers: { [`x-${header}`]: value },
      redirect: 'manual',
    });
    const { status, headers } = response;
    return { status, type: headers.get('content-type'), body: await response.text(), headers };
  };

  test('a client reads the problem document of the rule that refused it', async () => {
    const { status, type, body } = await get('user');
    expect([status, type]).toEqual([429, 'application/problem+json']);
    expect(JSON.parse(body)).toMatchObject({ status: 429, rule: 'demo.user', limit: '0 per day' });
  });

  test('a client reads the JSON and the headers of the rule that refused it', async () => {
    const { status, type, body, headers } = await get('api_key');
    expect([status, type, headers.get('x-plan')]).toEqual([429, 'application/json', 'free']);
    expect(JSON.parse(body)).toEqual({ retry_after: null, limit: '0 per day' });
  });

  test('without a response of the rule, the body is empty', async () => {
    expect(await get('user', '10000', 'plain')).toMatchObject({ status: 429, body: '', type: null });
  });

  test('with the local replies of the page, Envoy changes the status by the rule, and redirects', async () => {
    const redirected = await get('page', '10001');
    expect(redirected).toMatchObject({ status: 303, body: 'slow down', type: 'text/html' });
    expect(redirected.headers.get('location')).toBe('https://example.com/slow');
    expect(await get('api_key', '10001')).toMatchObject({ status: 403, type: 'application/json' });
    expect(await get('user', '10001')).toMatchObject({ status: 429, type: 'application/problem+json' });
  });
});
