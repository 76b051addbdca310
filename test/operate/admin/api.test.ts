import '../../helpers/realm.ts';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { startAdministered } from '../../helpers/administered.ts';
import { startWeir, type Weir } from '../../helpers/weir.ts';

const TOKEN = 'a secret of operators';
const RULES = `
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 3, alignment: first_hit}}
  - {key: path, value: /login*, rate_limits: [{unit: hour, requests_per_unit: 9}, {unit: year, requests_per_unit: 20, algorithm: token_bucket}]}
  - {key: plan, value: gold, rate_limit: {unlimited: true}}
  - key: payer
    unit_cost: 0.01 USD
    rate_limits: [{unit: year, budget: 20.00 USD}, {unit: year, requests_per_unit: 2000}]
`;

let folder: string;
let weir: Weir;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'api-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
  const env = {
    ADMIN_TOKEN: `ops:operate:${TOKEN},viewer:read:r`,
    AUDIT_LOG: join(folder, 'audit.jsonl'),
    USE_STATSD: 'false',
  };
  weir = await startWeir(env, { args: ['--rules', join(folder, 'rules.yaml')] });
});
afterAll(async () => {
  await weir.stop();
});

const url = (path: string): string => `http://127.0.0.1:${weir.debugPort}${path}`;
const as = (secret: string) => ({ authorization: `Bearer ${secret}` });

async function call(method: string, path: string, body?: unknown, headers: Record<string, string> = as(TOKEN)) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const response = await fetch(url(path), { method, headers, ...(body !== undefined && { body: text }) });
  const answer = await response.text();
  return {
    status: response.status,
    type: response.headers.get('content-type'),
    body: answer === '' ? undefined : JSON.parse(answer),
  };
}

const hit = (user: string) =>
  fetch(`http://127.0.0.1:${weir.httpPort}/json`, {
    method: 'POST',
    body: JSON.stringify({ domain: 'demo', descriptors: [{ entries: [{ key: 'user', value: user }] }] }),
  });

const entries = (text: string) =>
  text.split(',').map((one) => ({ key: one.split('=')[0], value: one.split('=')[1] ?? '' }));

test('explain predicts the next answer of /json, and charges nothing', async () => {
  const request = { domain: 'demo', descriptors: [{ entries: entries('user=anna') }] };
  const first = await call('POST', '/api/v1/explain', request);
  const second = await call('POST', '/api/v1/explain', request);
  expect(first).toMatchObject({
    status: 200,
    body: { status: 200, descriptors: [{ rule: 'demo.user', limits: [{ line: 4 }] }] },
  });
  const answered = await (await hit('anna')).json();
  const withoutSeconds = ({ statuses, ...rest }: { statuses: { durationUntilReset?: string }[] }) => ({
    ...rest,
    statuses: statuses.map(({ durationUntilReset: _, ...status }) => status),
  });
  for (const { body } of [first, second])
    expect(withoutSeconds(body.answer)).toEqual(withoutSeconds(answered as never));
  expect(await call('POST', '/api/v1/explain', { domain: 'demo', descriptors: [{ entries: 7 }] })).toMatchObject({
    status: 200,
    body: { status: 400, error: 'descriptors[0].entries must be a list, got 7' },
  });
});

test('a reset restores the whole limit of a user, and is written to the audit log', async () => {
  for (let hits = 0; hits < 4; hits++) await hit('bob');
  expect((await hit('bob')).status).toBe(429);
  const reset = await call('POST', '/api/v1/counters/reset', {
    domain: 'demo',
    descriptor: entries('user=bob'),
    reason: 'support case 1',
  });
  expect(reset).toMatchObject({
    status: 200,
    body: { counters: [{ rule: 'demo.user', used: 0, remaining: 3, before: { used: 5 } }] },
  });
  expect((await hit('bob')).status).toBe(200);
  const lines = readFileSync(join(folder, 'audit.jsonl'), 'utf8').trim().split('\n');
  const line = {
    who: 'ops',
    change: 'reset',
    reason: 'support case 1',
    what: { domain: 'demo', descriptor: 'user=bob', rule: 'demo.user' },
    before: [{ used: 5, remaining: 0 }],
    after: [{ used: 0, remaining: 3 }],
  };
  expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject(line);
  expect(await call('GET', '/api/v1/audit', undefined, as('r'))).toMatchObject({
    body: { changes: expect.arrayContaining([expect.objectContaining({ change: 'reset' })]) },
  });
});

test('granted hits pass again, up to the number of used hits', async () => {
  for (let hits = 0; hits < 3; hits++) await hit('carol');
  const body = { domain: 'demo', descriptor: entries('user=carol'), hits: 2, reason: 'retry' };
  expect(await call('POST', '/api/v1/counters/grant', body)).toMatchObject({
    body: { counters: [{ used: 1, remaining: 2, before: { used: 3 } }] },
  });
  expect(await call('POST', '/api/v1/counters/grant', { ...body, hits: 50 })).toMatchObject({
    body: { counters: [{ used: 0, remaining: 3 }] },
  });
});

test('counters are shown by descriptor, and listed by rule', async () => {
  for (let user = 0; user < 5; user++) await hit(`listed-${user}`);
  expect(await call('GET', '/api/v1/counters?domain=demo&descriptor=user%3Dlisted-1')).toMatchObject({
    body: { counters: [{ rule: 'demo.user', limit: '3 per year', used: 1, remaining: 2 }] },
  });
  const { body } = await call('GET', '/api/v1/counters?rule=demo.user');
  const users = body.counters.map((one: { entries: { value: string }[] }) => one.entries[0]?.value);
  expect(users).toEqual(expect.arrayContaining(['listed-0', 'listed-1', 'listed-2', 'listed-3', 'listed-4']));
  expect(await call('GET', '/api/v1/counters?domain=demo&descriptor=plan%3Dgold')).toMatchObject({
    status: 404,
    body: { detail: 'the descriptor has no counters: demo.plan_gold is unlimited' },
  });
});

test('unmatched descriptors are listed with the nearest rule, and with values only for clients that may read them', async () => {
  const request = { domain: 'demo', descriptors: [{ entries: entries('usr=dora') }] };
  await fetch(`http://127.0.0.1:${weir.httpPort}/json`, { method: 'POST', body: JSON.stringify(request) });
  const nearest = expect.arrayContaining([expect.objectContaining({ rule: 'demo.user' })]);
  const expected = { domain: 'demo', reason: 'no_such_key', level: 1, nearest };
  expect(await call('GET', '/api/v1/unmatched', undefined, as('r'))).toMatchObject({
    body: {
      descriptors: [
        { ...expected, entries: [{ key: 'usr', value: 'dora' }], why: expect.stringContaining('demo.user') },
      ],
    },
  });
  const open = await call('GET', '/api/v1/unmatched', undefined, {});
  expect(open).toMatchObject({
    body: { descriptors: [{ ...expected, entries: [{ key: 'usr', value: '(hidden)' }] }] },
  });
  expect(JSON.stringify(open.body)).not.toContain('dora');
});

test('top keys are listed by hits and by refusals', async () => {
  for (let hits = 0; hits < 6; hits++) await hit('eve');
  const found = {
    rules: [
      {
        rule: 'demo.user',
        keys: expect.arrayContaining([
          { descriptor: 'user=eve', entries: entries('user=eve'), hits: 6, atMostTooHighBy: 0 },
        ]),
      },
    ],
  };
  expect(await call('GET', '/api/v1/top')).toMatchObject({ body: { by: 'hits', ...found } });
  expect(await call('GET', '/api/v1/top?by=refusals&rule=demo.user')).toMatchObject({
    body: {
      rules: [
        {
          keys: expect.arrayContaining([
            { descriptor: 'user=eve', entries: entries('user=eve'), hits: 3, atMostTooHighBy: 0 },
          ]),
        },
      ],
    },
  });
});

const inAnHour = (): string => new Date(Date.now() + 3_600_000).toISOString();

test('an override takes precedence over the rule until it is removed, and explain shows it', async () => {
  const name = { domain: 'demo', descriptor: entries('user=gina') };
  const body = { ...name, until: inAnHour(), reason: 'launch day' };
  expect((await call('PUT', '/api/v1/overrides', { ...body, effect: 'exempt' })).status).toBe(200);
  for (let hits = 0; hits < 5; hits++) expect((await hit('gina')).status).toBe(200);
  expect(
    (await call('PUT', '/api/v1/overrides', { ...body, effect: 'limit', requestsPerUnit: 1, unit: 'HOUR' })).status,
  ).toBe(200);
  expect([(await hit('gina')).status, (await hit('gina')).status]).toEqual([200, 429]);
  const request = { domain: 'demo', descriptors: [{ entries: name.descriptor }] };
  expect(await call('POST', '/api/v1/explain', request)).toMatchObject({
    body: {
      status: 429,
      descriptors: [
        {
          outcome: 'overridden',
          override: { effect: '1 per hour', by: 'ops', reason: 'launch day' },
          limits: [{ rule: 'demo.user', limit: '1 per hour', before: { used: 2 } }],
        },
      ],
    },
  });
  expect((await call('PUT', '/api/v1/overrides', { ...body, effect: 'block' })).status).toBe(200);
  expect((await hit('gina')).status).toBe(429);
  expect(await call('GET', '/api/v1/overrides')).toMatchObject({
    body: { overrides: [{ descriptor: 'user=gina', effect: 'block' }] },
  });
  expect((await call('DELETE', '/api/v1/overrides', { ...name, reason: 'over' })).status).toBe(200);
  expect((await hit('gina')).status).toBe(200);
  expect(await call('DELETE', '/api/v1/overrides', { ...name, reason: 'over' })).toMatchObject({ status: 404 });
});

test('a reason in the query of a change that takes a body is refused with the place where it belongs', async () => {
  for (const path of ['/api/v1/candidate', '/api/v1/overrides'])
    expect(await call('DELETE', `${path}?reason=over`)).toMatchObject({
      status: 400,
      body: { detail: 'the query is not valid: reason belongs in the body, which is JSON' },
    });
  expect(await call('DELETE', '/api/v1/candidate', { reason: 'over' })).toMatchObject({ status: 200 });
});

test('a counter of an exempted descriptor is shown with the exemption, and can be reset for the time afterwards', async () => {
  for (let hits = 0; hits < 3; hits++) await hit('olga');
  const named = { domain: 'demo', descriptor: entries('user=olga') };
  await call('PUT', '/api/v1/overrides', { ...named, effect: 'exempt', until: inAnHour(), reason: 'load test' });
  expect(await call('GET', '/api/v1/counters?domain=demo&descriptor=user=olga')).toMatchObject({
    status: 200,
    body: {
      counters: [{ rule: 'demo.user', limit: '3 per year', used: 3 }],
      override: { effect: 'exempt', by: 'ops', reason: 'load test' },
    },
  });
  expect(await call('POST', '/api/v1/counters/reset', { ...named, reason: 'load test' })).toMatchObject({
    status: 200,
    body: { counters: [{ used: 0, before: { used: 3 } }], override: { effect: 'exempt' } },
  });
  await call('DELETE', '/api/v1/overrides', { ...named, reason: 'it is over' });
  expect((await hit('olga')).status).toBe(200);
});

test('the counter of a limiting or blocking override is shown with the override', async () => {
  const named = { domain: 'demo', descriptor: entries('user=finn') };
  await call('PUT', '/api/v1/overrides', { ...named, effect: 'block', until: inAnHour(), reason: 'abuse' });
  expect(await call('GET', '/api/v1/counters?domain=demo&descriptor=user=finn')).toMatchObject({
    status: 200,
    body: { counters: [{ name: 'override', remaining: 0 }], override: { effect: 'block', reason: 'abuse' } },
  });
  await call('DELETE', '/api/v1/overrides', { ...named, reason: 'it is over' });
});

test('an override that cannot be applied is refused', async () => {
  const body = { domain: 'demo', descriptor: entries('user=h'), until: inAnHour(), reason: 'r' };
  const wrong = [
    { ...body, effect: 'limit' },
    { ...body, effect: 'block', requestsPerUnit: 1 },
    { ...body, effect: 'block', until: 'tomorrow' },
    { ...body, effect: 'block', until: '2001-01-01T00:00:00Z' },
  ];
  for (const one of wrong)
    expect(await call('PUT', '/api/v1/overrides', one)).toMatchObject({
      status: 400,
      type: 'application/problem+json',
    });
});

test('changes require the role operate, and reads require a token', async () => {
  const body = { domain: 'demo', descriptor: entries('user=bob'), reason: 'r' };
  expect(await call('POST', '/api/v1/counters/reset', body, as('r'))).toMatchObject({
    status: 403,
    type: 'application/problem+json',
  });
  expect(await call('POST', '/api/v1/counters/reset', body, {})).toMatchObject({ status: 401 });
  expect(await call('GET', '/api/v1/top', undefined, {})).toMatchObject({ status: 401 });
});

interface Document {
  readonly paths: Record<
    string,
    Record<
      string,
      {
        readonly operationId: string;
        readonly parameters?: readonly { readonly name: string }[];
        readonly requestBody?: object;
      }
    >
  >;
}

const documentOf = async (): Promise<Document> => (await call('GET', '/api/v1/openapi.json', undefined, {})).body;

test('the OpenAPI document lists every operation, and no other path is answered as one', async () => {
  const all = Object.entries((await documentOf()).paths);
  const paths = Object.fromEntries(all.filter(([, methods]) => !('servers' in methods)));
  const ofCallers = all.filter(([, methods]) => 'servers' in methods).map(([path]) => path); // another port serves them
  const ofHolds = ['acquire', 'renew', 'release', 'reserve', 'commit'].map((method) => `/holds/${method}`);
  expect(ofCallers).toEqual(['/json', ...ofHolds]);
  const index = await (await fetch(url('/'))).text();
  const listed = index.split('\n').flatMap((line) => /^(\/api\/v1\/[^:]*):/.exec(line)?.[1] ?? []);
  expect(Object.keys(paths).sort()).toEqual(listed.sort());
  for (const [path, methods] of Object.entries(paths)) {
    const rejected = await call('PATCH', path);
    expect(rejected).toMatchObject({
      status: 405,
      type: 'application/problem+json',
      body: { title: 'Method Not Allowed' },
    });
    expect(
      Object.keys(methods)
        .map((method) => method.toUpperCase())
        .join(', '),
    ).toBe(rejected.body.detail.replace(/.*must be (.*), got PATCH/, '$1'));
  }
  const ids = Object.values(paths).flatMap((methods) => Object.values(methods).map(({ operationId }) => operationId));
  expect(new Set(ids).size).toBe(ids.length);
});

const anyBody = fc.oneof(
  fc.string(),
  fc.json(),
  fc
    .record(
      { domain: fc.anything(), descriptor: fc.anything(), reason: fc.anything(), hits: fc.anything() },
      { requiredKeys: [] },
    )
    .map((body) => JSON.stringify(body) ?? ''),
  fc
    .record({
      domain: fc.constantFrom('demo', '', 7),
      descriptor: fc.array(fc.record({ key: fc.string(), value: fc.oneof(fc.string(), fc.integer()) })),
      reason: fc.string(),
      hits: fc.oneof(fc.integer(), fc.double()),
      more: fc.string(),
    })
    .map((body) => JSON.stringify(body)),
);

const anyQuery = fc.array(
  fc.tuple(fc.constantFrom('domain', 'descriptor', 'count', 'after', 'by', 'rule', 'x'), fc.string()),
  { maxLength: 3 },
);

test('invalid input to any operation is refused with a problem document, and has no other effect', async () => {
  const { paths } = await documentOf();
  const endless = '/api/v1/events';
  const finite = Object.entries(paths).filter(([path]) => path.startsWith('/api/') && path !== endless); // others have another port
  const operations = finite.flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { requestBody }]) => ({
      path,
      method: method.toUpperCase(),
      hasBody: requestBody !== undefined,
    })),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...operations),
      anyBody,
      anyQuery,
      async ({ path, method, hasBody }, body, query) => {
        const search = new URLSearchParams(query).toString();
        const answered = await call(method, `${path}${search === '' ? '' : `?${search}`}`, hasBody ? body : undefined);
        expect([200, 400, 403, 404, 501]).toContain(answered.status);
        if (answered.status === 200) return;
        expect(answered.type).toBe('application/problem+json');
        expect(answered.body).toMatchObject({
          type: 'about:blank',
          status: answered.status,
          title: expect.any(String),
          detail: expect.any(String),
        });
      },
    ),
    { seed: 4, numRuns: 400 },
  );
  expect((await hit('after-all')).status).toBe(200);
});

test('a change whose audit line cannot be written is refused, and changes nothing; the last EXPLAIN_SAMPLE refusals are kept', async () => {
  expect(await call('GET', '/api/v1/refusals')).toMatchObject({
    status: 404,
    body: { detail: 'no refusals are kept: set EXPLAIN_SAMPLE' },
  });
  const audit = join(folder, 'no-such-folder', 'audit.jsonl');
  const other = await startAdministered(RULES, { EXPLAIN_SAMPLE: '2', AUDIT_LOG: audit });
  try {
    const ask = (user: string, hits: number) =>
      other.ask({ domain: 'demo', descriptors: [{ entries: entries(`user=${user}`) }], hits_addend: hits });
    expect(await ask('fay', 1)).toBe(200);
    const body = { domain: 'demo', descriptor: entries('user=fay'), reason: 'r' };
    expect(await other.call('POST', '/api/v1/counters/reset', body)).toMatchObject({
      status: 503,
      body: { detail: expect.stringContaining('nothing was changed: the audit log cannot be written') },
    });
    expect(await other.call('GET', '/api/v1/counters?domain=demo&descriptor=user%3Dfay')).toMatchObject({
      body: { counters: [{ used: 1 }] },
    });

    for (const user of ['a', 'b', 'c']) expect(await ask(user, 4)).toBe(429);
    const { refusals, dropped } = (await other.call('GET', '/api/v1/refusals')).body as {
      refusals: { descriptors: { entries: { value: string }[] }[] }[];
      dropped: number;
    };
    expect(dropped).toBe(0);
    expect(refusals.map(({ descriptors }) => descriptors[0]?.entries[0]?.value).sort()).toEqual(['b', 'c']);
    expect(refusals[0]).toMatchObject({
      domain: 'demo',
      descriptors: [
        {
          rule: 'demo.user',
          line: 4,
          limit: '3 per year',
          code: 'OVER_LIMIT',
          arithmetic: '0 + 4 = 4 > 3',
          retryAfterMs: null,
          source: 'backend',
        },
      ],
    });
  } finally {
    await other.stop();
  }
});

test('money is refunded to budgets, and hits to other limits', async () => {
  const sent = { domain: 'demo', hits_addend: 1_000, descriptors: [{ entries: entries('payer=dora') }] };
  await fetch(`http://127.0.0.1:${weir.httpPort}/json`, { method: 'POST', body: JSON.stringify(sent) });
  const grant = (given: object, descriptor = 'payer=dora') =>
    call('POST', '/api/v1/counters/grant', {
      domain: 'demo',
      descriptor: entries(descriptor),
      reason: 'an outage',
      ...given,
    });
  const left = (cost: number, hits: number) => ({
    status: 200,
    body: { counters: [{ currency: 'USD', used: cost }, { used: hits }] },
  });
  expect(await grant({ amount: '7.50 USD' })).toMatchObject(left(2_500_000_000, 1_000));
  expect(await grant({ hits: 400 })).toMatchObject(left(2_500_000_000, 600));
  expect(await grant({ amount: '99.00 USD' })).toMatchObject(left(0, 600));
  const refused: readonly (readonly [object, string?])[] = [
    [{ amount: '1.00 EUR' }],
    [{ amount: '1.00 USD' }, 'user=dora'],
    [{ amount: '1.00 USD per 1000' }],
    [{ amount: '1.00 USD', hits: 1 }],
    [{}],
  ];
  expect(await Promise.all(refused.map(async ([given, to]) => (await grant(given, to)).body.detail))).toEqual([
    'the descriptor has no limit in EUR: give hits, or an amount in the currency of its budget',
    'the descriptor has no limit in USD: give hits, or an amount in the currency of its budget',
    "the body is not valid: amount must be one such as 12.50 USD, got '1.00 USD per 1000': it is a price",
    'the body is not valid: either hits or amount is required',
    'the body is not valid: either hits or amount is required',
  ]);
});
