import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Envoy, startEnvoy } from '../helpers/envoy.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

const PAGE = readFileSync(fileURLToPath(new URL('../../docs/headers.md', import.meta.url)), 'utf8');

/** The filter on the page about headers, which removes one of Weir's. */
const MUTATION = /<!-- envoy -->\n```yaml\n([^`]*)```/.exec(PAGE)?.[1] ?? '';

const RULES = `domain: demo
descriptors:
  - { key: user, shadow_mode: true, rate_limit: { unit: day, requests_per_unit: 0 } }
  - { key: user, value: refused, rate_limit: { unit: day, requests_per_unit: 0 }, response: { body: slow down } }
  - key: user
    value: denied
    rate_limit: { unit: day, requests_per_unit: 0 }
    response: { body: slow down, headers: { grpc-status: "7" } }
`;

const WOULD_REFUSE = 'x-ratelimit-would-refuse';

/** envoy.yaml, whose routes remove a header, with the page's filter in one listener, and an upstream that sends the header. */
function edited(config: string): string {
  const mutation = MUTATION.trimEnd().replaceAll('\n', '\n                  ');
  const added = `response_headers_to_add: [{ header: { key: ${WOULD_REFUSE}, value: upstream } }]`;
  return config
    .replace(
      '                      rate_limits:\n',
      `                      response_headers_to_remove: [${WOULD_REFUSE}]\n$&`,
    )
    .replace('                          direct_response:', `                          ${added}\n$&`)
    .replace(
      /(stat_prefix: fails_closed[\s\S]*?http_filters:\n) {18}/,
      `$1                  ${mutation}\n                  `,
    );
}

describe('behind Envoy', () => {
  let weir: Weir;
  let envoy: Envoy;
  beforeAll(async () => {
    const rules = join(mkdtempSync(join(tmpdir(), 'headers-')), 'rules.yaml');
    writeFileSync(rules, RULES);
    weir = await startWeir({ LIMIT_WOULD_REFUSE_HEADER: WOULD_REFUSE }, { args: ['--rules', rules] });
    envoy = await startEnvoy(weir.grpcPort, edited);
  });
  afterAll(async () => {
    await envoy?.stop();
    await weir?.stop();
  });

  test("a route removes the upstream's header and not Weir's, which a filter before the rate limit filter removes", async () => {
    const headerAt = async (listener: string) => (await envoy.get(listener, '/', 'ann')).headers.get(WOULD_REFUSE);
    expect(await headerAt('10000')).toBe('"demo.user";reason=shadow');
    expect(await headerAt('10001')).toBeNull();
  });

  test.each([
    ['RESOURCE_EXHAUSTED', 'refused', '8'],
    ['the code of the rule', 'denied', '7'],
  ])('a gRPC client receives %s, with the body as the message', async (_, user, status) => {
    const session = connect(`http://127.0.0.1:${envoy.portOf('10000')}`);
    try {
      const call = session.request({
        ':method': 'POST',
        ':path': '/shop.Cart/Add',
        'content-type': 'application/grpc',
        te: 'trailers',
        'x-user': user,
      });
      const answer = await new Promise<object>((resolve, reject) => {
        call.once('response', resolve).once('error', reject).end();
      });
      expect(answer).toMatchObject({
        ':status': 200,
        'content-type': 'application/grpc',
        'grpc-status': status,
        'grpc-message': 'slow down',
      });
    } finally {
      session.destroy();
    }
  });
});
