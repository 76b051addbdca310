import type { LogFormatName } from '../../../../src/parts/replay/readers/format-names.ts';
import { openLineParser, recognizeFormat } from '../../../../src/parts/replay/readers/formats.ts';

const envoyGateway =
  '{":authority":"backend:3000","bytes_received":0,"bytes_sent":466,"downstream_remote_address":"10.244.0.12:34805","duration":1,"method":"GET","protocol":"HTTP/1.1","response_code":429,"response_code_details":"request_rate_limited","response_flags":"RL","start_time":"2025-04-09T11:44:45.639Z","user-agent":"curl/7.88.1","x-envoy-origin-path":"/a?b=1","x-forwarded-for":"10.244.0.12","x-request-id":"ab1e"}';
const istioText =
  '[2020-11-25T21:26:18.409Z] "GET /status/418 HTTP/1.1" 418 - via_upstream - "-" 0 135 4 4 "-" "curl/7.73.0-DEV" "84961386" "httpbin:8000" "127.0.0.1:80" inbound|8000|| 127.0.0.1:41854 10.44.1.27:80 10.44.1.23:37652 outbound_.8000_._.httpbin.foo.svc.cluster.local default';
const envoyText =
  '[2016-04-15T20:17:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "nsq2http" "cc21d9b0" "locations" "tcp://10.0.2.1:80"';
const nginx =
  '203.0.113.7 - ann [22/Nov/2026:09:17:16 +0100] "GET /login?next=%2F HTTP/2.0" 200 1234 "https://example.org/" "Mozilla/5.0 (\\"quoted\\")"';
const k6 =
  '{"type":"Point","metric":"http_reqs","data":{"time":"2026-11-22T09:17:16.123456789+01:00","value":1,"tags":{"method":"GET","name":"home","status":"200","url":"http://shop.test/cart?id=7"}}}';
const vegeta =
  '{"attack":"","seq":0,"code":200,"timestamp":"2026-11-22T09:17:16.123456789Z","latency":1200000,"bytes_out":0,"bytes_in":2,"error":"","body":"b2s=","method":"GET","url":"http://shop.test","headers":{}}';

const one = (format: LogFormatName, line: string) => openLineParser(format)([line])[0];

test.each([
  ['json', envoyGateway],
  ['envoy-text', istioText],
  ['envoy-text', envoyText],
  ['nginx', nginx],
  ['nginx', '10.0.0.1 - - [22/Nov/2026:09:17:16 +0000] "-" 400 0 "-" "-"'],
  ['k6', '{"metric":"http_reqs","type":"Metric","data":{"name":"http_reqs"}}'],
  ['k6', k6],
  ['vegeta', vegeta],
  ['csv', 'time,user,"plan, if any"'],
  ['csv', 'time;user'],
] as const)('%s is recognized by its first line', (format, line) => expect(recognizeFormat(line)).toBe(format));

const envoyStart =
  '[2026-11-22 09:17:16.123][1][info][main] [source/server/server.cc:432] initializing epoch 0 (base id=0, hot restart version=11.104)';
const notRecognized = ['', 'hello', '{"open', '1700000000,ann', '[]', envoyStart, 'user,plan', 'starting, time=1,2'];
test.each([...notRecognized, 'initializing epoch 0 (base id=0, hot restart version=11.104)'])(
  'no format is recognized in %j',
  (line) => expect(recognizeFormat(line)).toBeUndefined(),
);

test("the fields of Envoy's JSON, its text format and Istio's are read", () => {
  expect(one('json', envoyGateway)).toMatchObject({ ':authority': 'backend:3000', response_code: 429 });
  expect(one('envoy-text', istioText)).toMatchObject({
    start_time: '2020-11-25T21:26:18.409Z',
    path: '/status/418',
    authority: 'httpbin:8000',
    downstream_remote_address: '10.44.1.23:37652',
    response_code_details: 'via_upstream',
    route_name: 'default',
  });
  expect(one('envoy-text', envoyText)).toMatchObject({ method: 'POST', x_forwarded_for: '10.0.35.28' });
});

test('the combined format of nginx is read, also with further values at the end', () => {
  const fields = { remote_addr: '203.0.113.7', remote_user: 'ann', path: '/login?next=%2F', method: 'GET' };
  expect(one('nginx', nginx)).toMatchObject(fields);
  expect(one('nginx', `${nginx} "-" 0.012`)).toMatchObject({ ...fields, status: '200' });
});

test('the requests of k6 and vegeta are read, but no other data of k6', () => {
  expect(one('k6', k6)).toMatchObject({ name: 'home', authority: 'shop.test', path: '/cart?id=7', method: 'GET' });
  expect(one('k6', k6.replace('http_reqs', 'http_req_duration'))).toBeUndefined();
  expect(one('vegeta', vegeta)).toMatchObject({ authority: 'shop.test', path: '/', code: 200 });
});

test('an invalid line is reported with the reason', () => {
  expect(one('json', '{"a":')).toMatch(/^not JSON: /);
  expect(one('json', '[1]')).toBe('expected a JSON object');
  expect(one('nginx', 'hello')).toBe('expected the combined format of nginx');
  expect(one('envoy-text', nginx)).toBe("expected Envoy's or Istio's default text format");
});

test('a table is read by its header with any delimiter, and an invalid line does not affect others', () => {
  const table = openLineParser('csv');
  expect(table(['', 'time;user;path'])).toEqual([undefined, undefined]);
  expect(table(['1;ann;"/a;b"', '2;bob;/', '3;cem', '4;"dee;/', '', '5;"e""e";/'])).toEqual([
    { time: '1', user: 'ann', path: '/a;b' },
    { time: '2', user: 'bob', path: '/' },
    'expected 3 values, got 2',
    expect.stringContaining('Quote'),
    undefined,
    { time: '5', user: 'e"e', path: '/' },
  ]);
});
