import { examine } from '../../../src/parts/envoy/doctor.ts';
import { type FilterRow, listenerOf } from '../../helpers/recorded-calls.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { filterTable } from './filter-table.ts';

const RATES = rulesFrom(`
domain: d
descriptors:
  - { key: user, rate_limit: { unit: day, requests_per_unit: 2 } }
  - { key: path, rate_limit: { unit: day, requests_per_unit: 2 } }
  - { key: host, rate_limit: { unit: day, requests_per_unit: 2 } }
  - { key: generic_key, rate_limit: { unit: day, requests_per_unit: 2 } }
  - { key: remote_address_match, rate_limit: { unit: day, requests_per_unit: 2 } }
  - { key: k, rate_limit: { unit: day, requests_per_unit: 2 } }
`);
const SLOTS = rulesFrom(`
domain: d
descriptors: [{ key: user, rate_limit: { algorithm: in_flight, requests_per_unit: 2, ttl: 18s } }]
`);

/** The doctor's findings about an Envoy with one row of the table, except for what concerns its cluster. */
async function findings(row: FilterRow, rules: typeof RATES): Promise<readonly string[]> {
  const configDump = { configs: [{ static_listeners: [{ listener: listenerOf(row, 1, 'x') }] }] };
  const found = await examine({ configDump, clusters: {}, probe: async () => undefined }, rules);
  return found.map(({ verdict, text }) => `${verdict} ${text}`).filter((line) => !line.startsWith('wrong cluster rls'));
}

/** Findings other than `right`. */
const mistakes = async (row: FilterRow, rules: typeof RATES): Promise<readonly string[]> =>
  (await findings(row, rules)).filter((line) => !line.startsWith('right'));

function rowOf(title: string): FilterRow {
  const row = filterTable.find((one) => one.title === title);
  if (!row) throw new Error(`no row ${title}`);
  return { ...row, title: 'x' };
}

const AT = 'listener x, virtual host everything, route /';
const IDLE = 'wrong listener x, domain d: Envoy requests no decisions:';
const IGNORED = 'Envoy ignores hits_addend of user, as it is in rate_limits of a route or virtual host';
const SAVE = 'save it in the filter state before the route changes it, as weir envoy does';

test.each([
  ['a list of a route', []],
  ["the filter's own list", []],
  ['RateLimitPerRoute of the chosen weighted cluster', []],
  ['remote_address_match', []],
  ['request_type: external', []],
  ['a disabled item that RateLimitPerRoute enables', []],
  ['filter state saved before the route changes the request', ['wrong domain d: user,path matches no rule']],
  ['no list', [`${IDLE} no rate_limits apply to it`]],
  ['an empty RateLimitPerRoute of a route hides that of its virtual host', [`${IDLE} no rate_limits apply to it`]],
  ["a route's list of another stage hides its virtual host's", [`${IDLE} no rate_limits of the filter's stage 0`]],
  ['direct_response with RateLimitPerRoute', [`${IDLE} direct_response: Envoy limits only requests that it forwards`]],
  ['filter_enabled of 0 %', [`${IDLE} filter_enabled is 0 %`]],
  ['request_type: internal', [`${IDLE} request_type is internal: requests from outside are not limited`]],
  ['a disabled item of http_filters', [`${IDLE} the filter is disabled`]],
  ['FilterConfig disabled on a route', [`${IDLE} the filter is disabled`]],
  [
    'filter_enforced of 0 %',
    [
      'wrong domain d: filter_enforced is 0 %: refused requests pass, with x-envoy-ratelimited: true and retry-after on their answers',
    ],
  ],
  [
    'a domain of RateLimitPerRoute with the list of the route',
    ['wrong domain other has no rules: every request passes; the nearest is d'],
  ],
  [
    'hits_addend in a list of a route',
    [`wrong ${IGNORED}: move the list to RateLimitPerRoute in typed_per_filter_config: ${AT}`],
  ],
  ['hits_addend in RateLimitPerRoute', []],
  ['one descriptor twice', [`wrong user is sent twice, so each request counts twice: ${AT}`]],
  [
    'format: %BYTES_SENT%',
    [`check a request is not counted by generic_key=x if %BYTES_SENT% is no number from 0 to 1,000,000,000: ${AT}`],
  ],
  ['format: %RESPONSE_CODE%', []],
  [
    'prefix_rewrite',
    [`check path has another value when the stream ends, as the route changes :path: ${SAVE}: ${AT}old`],
  ],
  [
    'host_rewrite_literal',
    [`check host has another value when the stream ends, as the route changes :authority: ${SAVE}: ${AT}`],
  ],
])('the doctor says of %s what the rows of the table say', async (title, lines) => {
  expect(await mistakes(rowOf(title), RATES)).toEqual(lines);
});

const NEVER =
  'wrong domain d: no route sends user when streams end (apply_on_stream_done with is_negative_hits in RateLimitPerRoute): slots are released only after 18,000 ms (ttl)';

test.each([
  ['negative hits in RateLimitPerRoute', [`right domain d: slots of user are released by ${AT}`]],
  ['request_headers_to_add appends', [`right domain d: slots of user are released by ${AT}`]],
  ['negative hits in a list of a route', [NEVER]],
  ['request_headers_to_remove of a route', [NEVER]],
  ['request_headers_to_remove of a virtual host', [NEVER]],
  ['request_headers_to_add overwrites', [NEVER]],
  ['only a late descriptor', ['check domain d: no route sends user, which takes slots']],
])('the doctor says whether slots are released: %s', async (title, lines) => {
  const found = await findings(rowOf(title), SLOTS);
  expect(found.filter((line) => /slots of|no route sends/.test(line))).toEqual(lines);
});

test('the doctor says what each route sends, before the request is forwarded and when its stream ends', async () => {
  expect(await findings(rowOf('negative hits in RateLimitPerRoute'), RATES)).toContain(
    `right ${AT}: calls with user; user (-1 hit) when the stream ends in domain d`,
  );
});

test('a reservation is committed if any descriptor of its route reports its usage', async () => {
  const rules = rulesFrom(`
domain: d
descriptors:
  - key: user
    not_counted: hold
    rate_limit: { unit: minute, requests_per_unit: 9, reserve: { ttl: 5s } }
    descriptors: [{ key: used, not_counted: commit }, { key: ended, value: failed, not_counted: commit }]
`);
  const committed = (late: object) => {
    const user = { request_headers: { header_name: 'x-user', descriptor_key: 'user' } };
    const used = { generic_key: { descriptor_key: 'used', descriptor_value: 'tokens' } };
    const limits = [{ actions: [user] }, { actions: [user, used], ...late }];
    const perRoute = {
      '@type': 'type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute',
      rate_limits: limits,
    };
    return findings(
      { title: 'x', route: { typed_per_filter_config: { 'envoy.filters.http.ratelimit': perRoute } } },
      rules,
    );
  };
  expect(await committed({ apply_on_stream_done: true })).toContain(
    `right domain d: reservations of user are committed by ${AT}`,
  );
  expect(await committed({})).toContain(
    `wrong domain d: reservations of user are never committed, as none of these sends user,used or user,ended when streams end (apply_on_stream_done): ${AT}`,
  );
});

test.each([
  [{ timeout: '0s' }, /^right domain d: Envoy waits for Weir without a timeout/],
  [{ failure_mode_deny: true, status_on_error: { code: 'ServiceUnavailable' } }, /refused with ServiceUnavailable/],
  [{ failure_mode_deny: true, failure_mode_deny_percent: { default_value: {} } }, /percent is 0 of HUNDRED: .* pass/],
])('the doctor reads %j of the filter', async (filter, expected) => {
  const found = await findings({ ...rowOf('a list of a route'), filter }, RATES);
  expect(found).toContainEqual(expect.stringMatching(expected));
  expect(found).toEqual(expect.not.arrayContaining([expect.stringMatching(/^wrong/)]));
});

test('an Envoy with only the filter for connections calls once for each connection', async () => {
  const config = {
    '@type': 'type.googleapis.com/envoy.extensions.filters.network.ratelimit.v3.RateLimit',
    domain: 'd',
    descriptors: [{ entries: [{ key: 'user', value: '%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%' }] }],
  };
  const listener = { name: 'tcp', filter_chains: [{ filters: [{ typed_config: config }] }] };
  const dumps = { configDump: { configs: [{ static_listeners: [{ listener }] }] }, clusters: {} };
  const found = await examine({ ...dumps, probe: async () => undefined }, RATES);
  expect(found.map(({ text }) => text)).toContain('listener tcp, each connection: calls with user in domain d');
  expect(found.filter(({ verdict }) => verdict === 'wrong')).toEqual([]);
});

const perRoute = (...rate_limits: readonly object[]) => ({
  '@type': 'type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute',
  rate_limits,
});

test('a matcher of an exact path is pointed out, and one descriptor with equal matchers twice is wrong', async () => {
  const login = {
    header_value_match: {
      descriptor_key: 'path',
      descriptor_value: 'login',
      headers: [{ name: ':path', string_match: { exact: '/login' } }],
    },
  };
  const limits = perRoute({ actions: [login] }, { actions: [login] });
  const row = { title: 'x', route: { typed_per_filter_config: { 'envoy.filters.http.ratelimit': limits } } };
  expect(await mistakes(row, RATES)).toEqual([
    `wrong path=login is sent twice, so each request counts twice: ${AT}`,
    `check path=login matches a path exactly: requests with a query are not counted: ${AT}`,
  ]);
});

test('a policy with a shared rule, which has a filter and a domain of its own, is right', async () => {
  const rules = rulesFrom(
    'domain: d\ndescriptors: [{ key: user, rate_limit: { unit: day, requests_per_unit: 2 } }]',
    'domain: shared\ndescriptors: [{ key: tenant, rate_limit: { unit: day, requests_per_unit: 2 } }]',
  );
  const header = (name: string) => ({
    actions: [{ request_headers: { header_name: `x-${name}`, descriptor_key: name } }],
  });
  const type = 'type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit';
  const service = { grpc_service: { envoy_grpc: { cluster_name: 'rls' } } };
  const row = {
    title: 'x',
    before: [{ name: 'shared', typed_config: { '@type': type, domain: 'shared', rate_limit_service: service } }],
    route: {
      typed_per_filter_config: {
        'envoy.filters.http.ratelimit': perRoute(header('user')),
        shared: perRoute(header('tenant')),
      },
    },
  };
  expect(await mistakes(row, rules)).toEqual([]);
});
