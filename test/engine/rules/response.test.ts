import '../../helpers/realm.ts';
import { describeRuleFully, ruleAsJson } from '../../../src/edge/listing/describe.ts';
import { formatProblem } from '../../../src/engine/rules/read/problem.ts';
import { loadText } from '../../helpers/rules.ts';

const withResponse = (response: string, limit = 'rate_limit: { unit: minute, requests_per_unit: 1 }') =>
  loadText(`domain: demo\ndescriptors:\n  - { key: user, ${limit}, response: ${response} }\n`);

/** The rule's response, or the problems. */
function read(response: string, limit?: string) {
  const loaded = withResponse(response, limit);
  if (!loaded.ok) return loaded.problems.map((one) => formatProblem(one).replace(/^.*?: (?=descriptors)/, ''));
  return [...loaded.rules.rules][0]?.response;
}

test.each([
  ['{}', { contentType: 'application/problem+json', headers: [] }],
  [
    "{ body: 'Wait {retry_after} s' }",
    { body: 'Wait {retry_after} s', contentType: 'text/plain; charset=utf-8', headers: [] },
  ],
  [
    `{ body: '{"a": {retry_after}, "b": "{limit}"}', headers: { Location: /slow } }`,
    {
      body: '{"a": {retry_after}, "b": "{limit}"}',
      contentType: 'application/json',
      headers: [{ key: 'Location', value: '/slow' }],
    },
  ],
])('reads %s', (written, expected) => {
  expect(read(written)).toEqual(expected);
});

test.each([
  ['{ body: "a {wait}" }', "body may have the placeholders {retry_after}, {limit}, {rule}, got '{wait}'"],
  ['{ body: "{", content_type: application/json }', 'must be JSON, as its content_type application/json says: '],
  ['{ content_type: html }', "must be a media type such as application/json, got 'html'"],
  ['{ content_type: text/html }', 'without a body, content_type must be of JSON'],
  ['{ headers: { content-length: 5 } }', 'cannot set content-length, which proxies set'],
  ['{ headers: { content-type: text/html } }', 'cannot set content-type: use content_type'],
  ['{ headers: { x-e: 1, X-E: 2 } }', 'must differ in more than case, got x-e and X-E'],
  ['{ headers: { "a b": c } }', "must have names such as Location, got 'a b'"],
  ['{ headers: { a: "é" } }', 'must have values of at most 1024 characters of printable ASCII; that of a is'],
  [`{ body: ${'x'.repeat(8_193)} }`, 'must have at most 8192 characters, got 8193'],
  ['{ status: 403 }', "unknown key 'status'; expected one of body, content_type, headers"],
])('refuses %.60s', (written, message) => {
  const problems = read(written);
  expect(problems).toEqual([expect.stringContaining(message)]);
});

test('a response goes with a limit that can refuse', () => {
  const message = 'goes with a limit of the same node that can refuse, got none';
  expect(read('{}', 'rate_limit: { unlimited: true }')).toEqual([expect.stringContaining(message)]);
  expect(read('{}', 'descriptors: [{ key: a, rate_limit: { unit: day, requests_per_unit: 1 } }]')).toEqual([
    expect.stringContaining(message),
  ]);
});

test('operators read the response of a rule', () => {
  const loaded = withResponse('{ body: no, headers: { a: b } }');
  const [rule] = loaded.ok ? [...loaded.rules.rules] : [];
  expect(rule && ruleAsJson(rule).response).toEqual({
    content_type: 'text/plain; charset=utf-8',
    body: 'no',
    headers: { a: 'b' },
  });
  expect(rule && describeRuleFully(rule)).toContain('response: text/plain; charset=utf-8');
});
