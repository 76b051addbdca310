import { formatProblem } from '../../../../src/engine/rules/read/problem.ts';
import { parseMapping } from '../../../../src/parts/replay/mapping/mapping.ts';

/** The entries of each descriptor that a mapping makes from a line with these fields. */
function descriptors(actions: string, fields: Readonly<Record<string, unknown>>, more = '') {
  const parsed = parseMapping('map.yaml', `domain: demo\nrate_limits:\n${actions}${more}`);
  if ('problems' in parsed) throw new Error(parsed.problems.map(formatProblem).join('\n'));
  const found = parsed.mapping.request({ start_time: '2026-11-22T09:17:16.123Z', ...fields });
  return typeof found === 'object'
    ? found.request.descriptors.map(({ entries }) => entries.map(({ key, value }) => `${key}=${value}`).join(','))
    : found;
}

const findProblems = (text: string): readonly string[] => {
  const parsed = parseMapping('map.yaml', text);
  return 'problems' in parsed ? parsed.problems.map(formatProblem) : [];
};

const each = (...actions: readonly string[]) => `  - actions: [${actions.join(', ')}]\n`;

test('headers are read under the names of Envoy Gateway, Istio and nginx', () => {
  const path = each('{request_headers: {header_name: ":path", descriptor_key: path}}');
  for (const name of ['x-envoy-origin-path', 'path', 'request_uri'])
    expect(descriptors(path, { [name]: '/a' })).toEqual(['path=/a']);
  const user = each('{request_headers: {header_name: X-User-Id, descriptor_key: user}}');
  for (const name of ['x-user-id', 'x_user_id', 'http_x_user_id'])
    expect(descriptors(user, { [name]: 'ann' })).toEqual(['user=ann']);
  expect(descriptors(user, { uid: 7 }, 'fields: {headers: {x-user-id: uid}}\n')).toEqual(['user=7']);
});

test('a descriptor whose action has no value is left out, as in Envoy, except with skip_if_absent', () => {
  const [user, method] = ['user', ':method'].map(
    (name) => `{request_headers: {header_name: "${name}", descriptor_key: "k${name}"}}`,
  ) as [string, string]; // two in, two out
  const skipping = user.replace('descriptor_key', 'skip_if_absent: true, descriptor_key');
  expect(descriptors(each(user, method) + each(method), { method: 'GET', user: '-' })).toEqual(['k:method=GET']);
  expect(descriptors(each(skipping, method), { method: 'GET' })).toEqual(['k:method=GET']);
  expect(descriptors(each(skipping), { method: 'GET' })).toBeUndefined();
});

test('a part of a value is extracted with a regular expression', () => {
  const part = (more: string) => each(`{request_headers: {header_name: ":path", descriptor_key: part, ${more}}}`);
  expect(descriptors(part("regex: '^/v1/([^/]+)'"), { path: '/v1/users/7' })).toEqual(['part=users']);
  expect(descriptors(part("regex: '^/v1/([^/]+)'"), { path: '/health' })).toBeUndefined();
  expect(descriptors(part("regex: '^/(\\w+)/(\\w+)', substitution: '\\2 of \\1'"), { path: '/v1/users' })).toEqual([
    'part=users of v1',
  ]);
  expect(descriptors(part("regex: '^([^?;]*)'"), { path: '//v1/x/../%6cogin;a?b' })).toEqual(['part=/v1/login']);
  const query = each("{query_parameters: {query_parameter_name: key, descriptor_key: key, regex: '^.{3}'}}");
  expect(descriptors(query, { path: '/?a=1&key=abc%20def' })).toEqual(['key=abc']);
  expect(descriptors(query, { path: '/?a=?&key=abc' })).toEqual(['key=abc']);
});

test('the address of the client is read without its port, and masked', () => {
  const address = each('{remote_address: {}}');
  for (const [written, read] of [
    ['10.1.2.3:4242', '10.1.2.3'],
    ['10.1.2.3', '10.1.2.3'],
    ['[2001:db8::1]:80', '2001:db8::1'],
    ['2001:db8::1', '2001:db8::1'],
    ['2001:DB8:0::1', '2001:db8::1'],
    ['::ffff:10.1.2.3', '10.1.2.3'],
  ])
    expect(descriptors(address, { downstream_remote_address: written })).toEqual([`remote_address=${read}`]);
  expect(
    descriptors(each('{remote_address: {v6_prefix_mask_len: 64}}'), { downstream_remote_address: '[2001:db8::1]:80' }),
  ).toEqual(['remote_address=2001:db8::/64']);
  const mask = each('{masked_remote_address: {v4_prefix_mask_len: 20, v6_prefix_mask_len: 33}}');
  for (const [written, read] of [
    ['10.1.255.3', '10.1.240.0/20'],
    ['2001:db8:ffff:1::1', '2001:db8:8000::/33'],
    ['::ffff:10.0.0.1', '10.0.0.0/20'],
    ['1:0:0:2:0:0:0:3', '1::/33'],
  ])
    expect(descriptors(mask, { remote_addr: written })).toEqual([`masked_remote_address=${read}`]);
  expect(descriptors(mask, { remote_addr: 'unknown' })).toBeUndefined();
  expect(descriptors(each('{masked_remote_address: {v4_prefix_mask_len: 0}}'), { ip: '1.2.3.4' })).toEqual([
    'masked_remote_address=0.0.0.0/0',
  ]);
});

test.each([
  ['exact: GET', 'GET', true],
  ['exact: get, ignore_case: true', 'GET', true],
  ['prefix: G', 'GET', true],
  ['suffix: X', 'GET', false],
  ['contains: E', 'GET', true],
  ['safe_regex: {regex: "G|P"}', 'GET', false],
  ['safe_regex: {regex: "GET|PUT"}', 'GET', true],
])('header_value_match with string_match {%s} of %s is %s', (match, method, isMatch) => {
  const action = (more: string) =>
    each(`{header_value_match: {descriptor_value: v, ${more} headers: [{name: ":method", string_match: {${match}}}]}}`);
  expect(descriptors(action(''), { method })).toEqual(isMatch ? ['header_match=v'] : undefined);
  expect(descriptors(action('expect_match: false, descriptor_key: k,'), { method })).toEqual(
    isMatch ? undefined : ['k=v'],
  );
});

test.each([
  ['present_match: true', undefined, false],
  ['present_match: true', 'a', true],
  ['present_match: false', undefined, true],
  ['present_match: true, invert_match: true', undefined, true],
  ['exact_match: a', 'a', true],
  ['prefix_match: b', 'a', false],
  ['exact_match: b, invert_match: true', 'a', true],
  ['exact_match: b, invert_match: true', undefined, false],
  ['exact_match: "", treat_missing_header_as_empty: true', undefined, true],
  ['range_match: {start: 1, end: 5}', '4', true],
  ['range_match: {start: 1, end: 5}', '5', false],
  ['range_match: {start: 1, end: 5}', '4x', false],
])('a header matcher with {%s} of %j is %s', (match, value, isMatch) =>
  expect(
    descriptors(each(`{header_value_match: {descriptor_value: v, headers: [{name: x-a, ${match}}]}}`), {
      'x-a': value,
    }),
  ).toEqual(isMatch ? ['header_match=v'] : undefined),
);

test("generic keys, the cluster, hits, the label and Envoy's answer are read", () => {
  const parsed = parseMapping(
    'map.yaml',
    `domain: demo
rate_limits:
  - actions: [{generic_key: {descriptor_value: all}}, {destination_cluster: {}}]
    hits_addend: {number: 3}
label: {field: verdict, refuse: [bot, scraper]}
`,
  );
  if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
  const fields = { start_time: 1_795_339_036_123, upstream_cluster: 'shop', response_code: 200, verdict: 'human' };
  const details = { response_code_details: 'via_upstream' };
  expect(parsed.mapping.request({ ...fields, ...details })).toEqual({
    timeMs: 1_795_339_036_123,
    request: {
      domain: 'demo',
      descriptors: [
        {
          entries: [
            { key: 'generic_key', value: 'all' },
            { key: 'destination_cluster', value: 'shop' },
          ],
          hits: 3,
          requestLimit: undefined,
        },
      ],
    },
    answer: { code: 'OK' },
    label: 'allow',
  });
  const refused = { ...fields, response_code: 429, response_flags: 'RL', verdict: 'bot' };
  expect(parsed.mapping.request(refused)).toMatchObject({ answer: { code: 'OVER_LIMIT' }, label: 'refuse' });
  const byOwnLimit = { ...refused, response_code_details: 'local_rate_limited' };
  expect(parsed.mapping.request(byOwnLimit)).not.toHaveProperty('answer');
  expect(parsed.mapping.request({ ...fields, response_code: 429, ...details })).not.toHaveProperty('answer');
  expect(parsed.mapping.request({ ...fields, start_time: 'soon' })).toBe('no time: "soon"');
});

test('everything that a route of Envoy may have is accepted, and read as Envoy reads it', () => {
  const route = `
  - stage: 0
    disable_key: off
    actions:
      - remote_address_match: { descriptor_value: office, address_matcher: { ranges: [{ address_prefix: 10.0.0.0, prefix_len: 8 }] } }
  - actions:
      - query_parameter_value_match: { descriptor_value: found, query_parameters: [{ name: q, string_match: { exact: "a b+c" } }] }
  - actions: [{ query_parameters: { query_parameter_name: q, descriptor_key: q } }]
  - actions: [{ metadata: { descriptor_key: plan, metadata_key: { key: jwt, path: [{ key: plan }] }, default_value: free } }]
    limit: { dynamic_metadata: { metadata_key: { key: jwt, path: [{ key: limit }] } } }
  - actions: [{ source_cluster: {} }]
    hits_addend: { format: "%REQ(X-COST)%" }
  - { stage: 1, actions: [{ generic_key: { descriptor_value: another stage } }] }
  - { apply_on_stream_done: true, actions: [{ generic_key: { descriptor_value: later } }], hits_addend: { format: "%BYTES_SENT%" } }
`;
  const fields = { remote_addr: '10.1.2.3', path: '/?q=a%20b+c&q=d', 'jwt:plan': 'gold', 'x-cost': '3' };
  expect(descriptors(route, fields)).toEqual([
    ...['remote_address_match=office', 'query_match=found', 'q=a b+c', 'plan=gold', 'source_cluster='],
  ]);
  expect(descriptors(route, { path: '/?q' })).toEqual(['q=', 'plan=free']);
});

test('the status of a response is reported, and nothing else that follows a request', () => {
  const late = '- { actions: [{ remote_address: {} }], apply_on_stream_done: true';
  const parsed = parseMapping(
    'map.yaml',
    `domain: d
rate_limits:
  - actions: [{ remote_address: {} }]
  ${late}, hits_addend: { format: "%RESPONSE_CODE%" } }
  ${late}, hits_addend: { format: "%RESPONSE_CODE%", is_negative_hits: true } }
  ${late}, hits_addend: { format: "%BYTES_SENT%" } }
  ${late} }
`,
  );
  if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
  const fields = { time: 1_700_000_000, remote_addr: '10.1.2.3', status: 401 };
  const entries = [{ key: 'remote_address', value: '10.1.2.3' }];
  expect(parsed.mapping.request(fields)).toMatchObject({
    request: { descriptors: [{ entries, hits: 1 }] },
    report: { domain: 'd', descriptors: [{ entries, hits: 401 }] },
  });
  expect(parsed.mapping.request({ ...fields, status: '-' })).not.toHaveProperty('report');
});

test('problems name the file, the line, the path, and the expected and the received value', () => {
  expect(
    findProblems(`domain: ''
rate_limits:
  - actions:
      - request_headers: { header_name: x-user }
      - remote_adress: {}
      - request_headers: { header_name: a, descriptor_key: b, regex: '(' }
      - masked_remote_address: { v4_prefix_mask_len: 33 }
      - header_value_match: { descriptor_value: v, headers: [{ name: a, string_match: {} }] }
      - generic_key: { descriptor_valeu: v }
    stage: 1
field: {}
`),
  ).toEqual([
    'map.yaml:1: domain: expected domain, a non-empty text, got none',
    'map.yaml:4: rate_limits[0].actions[0].request_headers: expected descriptor_key, a non-empty text, got none',
    "map.yaml:5: rate_limits[0].actions[1]: expected one action of request_headers, query_parameters, query_parameter_value_match, remote_address, masked_remote_address, remote_address_match, header_value_match, generic_key, metadata, source_cluster, destination_cluster, got 'remote_adress'",
    expect.stringContaining(
      "map.yaml:6: rate_limits[0].actions[2].request_headers.regex: expected a regular expression, got '(': ",
    ),
    "map.yaml:7: rate_limits[0].actions[3].masked_remote_address.v4_prefix_mask_len: expected a whole number from 0 to 32, got '33'",
    'map.yaml:8: rate_limits[0].actions[4].header_value_match.headers[0].string_match: expected one of exact, prefix, suffix, contains, safe_regex, got none',
    'map.yaml:9: rate_limits[0].actions[5].generic_key: expected descriptor_value, a non-empty text, got none',
    "map.yaml:9: rate_limits[0].actions[5].generic_key.descriptor_valeu: unknown key 'descriptor_valeu'; did you mean 'descriptor_value'?",
    "map.yaml:11: field: unknown key 'field'; did you mean 'fields'?",
  ]);
  expect(findProblems('')).toEqual(['map.yaml:1: expected a mapping, got nothing']);
  expect(findProblems('domain: [')).toEqual([expect.stringMatching(/^map.yaml:1: no YAML: /)]);
  expect(findProblems('domain: demo')).toEqual([
    'map.yaml:1: expected rate_limits, a list that is not empty, got none',
  ]);
});
