import '../../helpers/realm.ts';
import { NAMED_BY_CALLERS } from '../../../src/parts/console/rule-series.ts';
import { type Administered, startAdministered } from '../../helpers/administered.ts';
import { eventually } from '../../helpers/until.ts';

const RULES = `
domain: demo
descriptors:
  - {key: user, value_to_metric: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: account, detailed_metric: true, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: path, rate_limit: {unit: year, requests_per_unit: 1}}
`;

/** Part of every value that a test sends. */
const SECRET = 'anna.smith';

let service: Administered;
beforeAll(async () => {
  service = await startAdministered(RULES);
  for (let times = 0; times < 3; times++) for (const key of ['user', 'account', 'path', 'ip']) await ask(key);
  await eventually(async () => (await page('/api/v1/series/rules', TOKEN)).includes(`demo.ip_${SECRET}`));
});
afterAll(() => service.stop());

/** Sends a request with one descriptor; that of `ip` has its own limit. */
const ask = (key: string) =>
  service.ask({
    domain: 'demo',
    descriptors: [
      { entries: [{ key, value: SECRET }], ...(key === 'ip' && { limit: { requests_per_unit: 1, unit: 'HOUR' } }) },
    ],
  });

const TOKEN = { authorization: 'Bearer token' };

const page = async (path: string, headers: Record<string, string> = {}) =>
  (await fetch(`http://127.0.0.1:${service.weir.debugPort}${path}`, { headers })).text();

/** The first snapshot of the event stream. */
async function snapshot(headers: Record<string, string> = {}): Promise<string> {
  const stop = new AbortController();
  const { body } = await fetch(`http://127.0.0.1:${service.weir.debugPort}/api/v1/events`, {
    headers,
    signal: stop.signal,
  });
  let text = '';
  for await (const chunk of body ?? []) {
    text += Buffer.from(chunk).toString();
    if (/data: .*\n\n/.test(text)) break;
  }
  stop.abort();
  return text;
}

test('a client without a token sees no values of callers in names of limits', async () => {
  for (const shown of [await page('/api/v1/series/rules'), await snapshot()]) {
    expect(shown).toContain(NAMED_BY_CALLERS);
    expect(shown).toContain('demo.path');
    expect(shown).not.toContain(SECRET);
  }
  for (const rule of [`demo.user_${SECRET}`, `demo.account_${SECRET}`, `demo.ip_${SECRET}`]) {
    const path = `/api/v1/series?rule=${rule}`;
    expect(JSON.parse(await page(path))).toHaveProperty('series', {});
    expect(JSON.parse(await page(path, TOKEN))).toMatchObject({ series: { refused: expect.anything() } });
  }
  expect(JSON.parse(await page(`/api/v1/series?rule=${encodeURIComponent(NAMED_BY_CALLERS)}`))).toMatchObject({
    series: { refused: expect.anything() },
  });
});

test('a client with a token sees the names', async () => {
  for (const shown of [await page('/api/v1/series/rules', TOKEN), await snapshot(TOKEN)]) {
    expect(shown).toContain(`demo.user_${SECRET}`);
    expect(shown).toContain(`demo.ip_${SECRET}`);
    expect(shown).not.toContain(NAMED_BY_CALLERS);
  }
});

test('open operations show no values of callers', async () => {
  const { paths } = JSON.parse(await page('/api/v1/openapi.json')) as {
    paths: Readonly<Record<string, { readonly get?: { readonly security?: unknown } }>>;
  };
  const open = Object.entries(paths).flatMap(([path, { get }]) => (get && !get.security ? [path] : []));
  expect(open).toContain('/api/v1/unmatched');
  for (const path of open.filter((one) => one !== '/api/v1/events')) expect(await page(path)).not.toContain(SECRET);
});
