import { LogSample } from '../../../../src/parts/replay/mapping/learn.ts';
import { parseMapping } from '../../../../src/parts/replay/mapping/mapping.ts';
import type { LogFields } from '../../../../src/parts/replay/readers/fields.ts';

function learned(lines: readonly LogFields[]): string {
  const sample = new LogSample();
  for (const fields of lines) sample.add(fields);
  return sample.mapping('access.log', 'json');
}

/** The request that the mapping of a log makes from its first line. */
function firstRequest(text: string, fields: LogFields | undefined) {
  const parsed = parseMapping('learned.yaml', text);
  if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
  const found = parsed.mapping.request(fields ?? {});
  return typeof found === 'object'
    ? found.request.descriptors.map(({ entries }) => entries.map(({ key, value }) => `${key}=${value}`).join(','))
    : found;
}

test('the proposed mapping has the address, the path without its query and fields that name clients, and is valid', () => {
  const lines = Array.from({ length: 100 }, (_, at) => ({
    start_time: '2026-11-22T09:17:16.123Z',
    downstream_remote_address: `10.0.0.${at % 20}:${at}`,
    'x-envoy-origin-path': `/items/${at % 5}?page=${at}`,
    'x-tenant': `t${at % 3}`,
    'user-agent': 'curl',
    duration: at,
  }));
  const text = learned(lines);
  expect(firstRequest(text, lines[0])).toEqual(['remote_address=10.0.0.0', 'path=/items/0', 'tenant=t0']);
  expect(text).toContain('100 requests, format json');
  expect(text).toMatch(/^# {3}x-tenant +3 +100 % {2}t0$/m);
});

test('the time is found under an unusual name, and a log without any known field still gets a mapping', () => {
  const lines = [{ when: '2026-11-22T09:17:16Z', a: 'x' }];
  expect(firstRequest(learned(lines), lines[0])).toEqual(['generic_key=all']);
});

test('hostile names and values of fields stay within their comments and quotes', () => {
  const lines = [
    { time: 1, 'user"]}\nrate_limits: []': 'a\ndomain: other', 'user\u2028x': 'a' },
    { time: 1, 'user"]}\nrate_limits: []': 'b', 'user\u2028x': 'b' },
    { time: 1, 'user"]}\nrate_limits: []': 'b', 'user\u2028x': 'b' },
  ];
  const text = learned(lines);
  expect(firstRequest(text, { ...lines[0], time: 1_795_339_036 })).toContain('user_rate_limits_=a\ndomain: other');
  expect(text).not.toMatch(/^domain: other/m);
});

test("control characters in a field's name are printed as escapes, and the mapping still reads the field", () => {
  const name = 'user\u202e\u009b31m\u2028';
  const lines = Array.from({ length: 3 }, (_, at) => ({ start_time: '2026-11-22T09:17:16Z', [name]: `u${at % 2}` }));
  const text = learned(lines);
  expect(text).not.toMatch(/[^\P{Cc}\n]|[\p{Zl}\p{Zp}\p{Bidi_Control}]/u);
  expect(firstRequest(text, lines[1])).toEqual(['user_31m_=u1']);
});
