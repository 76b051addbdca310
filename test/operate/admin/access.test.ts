import '../../helpers/realm.ts';
import type { IncomingMessage } from 'node:http';
import { type AccessOptions, admit, type Need, parseTokens, Sessions } from '../../../src/operate/admin/access.ts';
import { ApiProblem } from '../../../src/operate/admin/problem.ts';

const request = (headers: Record<string, string> = {}, remoteAddress = '127.0.0.1'): IncomingMessage =>
  ({ headers: { host: 'localhost:6070', ...headers }, socket: { remoteAddress } }) as unknown as IncomingMessage; // the only properties that are read

const admitted = (from: IncomingMessage, need: Need, options: Partial<AccessOptions> = {}): string | number => {
  try {
    const { name, seesValues } = admit(from, need, {
      tokens: [],
      hosts: [],
      sessions: new Sessions(() => 0, 6070),
      ...options,
    });
    return seesValues ? name : `${name}, without values`;
  } catch (error) {
    if (error instanceof ApiProblem) return error.status;
    throw error;
  }
};

const tokens = parseTokens('anna:operate:s1,ben:read:s2') ?? [];
const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` });

const BROWSER = {
  accept: 'text/html',
  'accept-language': 'en',
  'cache-control': 'max-age=0',
  cookie: 'a=b',
  'sec-ch-ua': '"Chromium"',
  'sec-fetch-site': 'same-origin',
  'upgrade-insecure-requests': '1',
  'user-agent': 'Mozilla/5.0',
};

test.each<[string, IncomingMessage, Need, string | number]>([
  ['reads everything on this machine', request(), 'read', 'loopback'],
  ['reads everything over IPv6 on this machine', request({ host: '[::1]:6070' }, '::1'), 'read', 'loopback'],
  ['changes nothing', request(), 'operate', 403],
  ['reads no values from another machine', request({}, '10.0.0.7'), 'read', 403],
  [
    'reads open pages from another machine without values',
    request({}, '10.0.0.7'),
    'open',
    'anonymous, without values',
  ],
  ['reads no values through a proxy', request({ 'x-forwarded-for': '10.0.0.7' }), 'read', 403],
  [
    'reads no values through a proxy that says so in the standard way',
    request({ forwarded: 'for=10.0.0.7' }),
    'read',
    403,
  ],
  ['reads no values through a proxy that only adds its name', request({ via: '1.1 proxy' }), 'read', 403],
  ['reads no values through a proxy that adds an address', request({ 'x-real-ip': '10.0.0.7' }), 'read', 403],
  [
    'reads no values through a proxy that adds nothing, as old NGINX',
    Object.assign(request(), { httpVersion: '1.0' }),
    'read',
    403,
  ],
  ['reads everything with the headers of a browser', request(BROWSER), 'read', 'loopback'],
  [
    'reads no values under a name that may have been bound to this machine',
    request({ host: 'evil.example:6070' }),
    'read',
    403,
  ],
  ['reads values under a name that ADMIN_HOSTS lists', request({ host: 'weir.local:6070' }), 'read', 'loopback'],
  ['reads no values for a page of another site', request({ origin: 'http://evil.example' }), 'read', 403],
  [
    'reads no values for a page of another site that the browser marks',
    request({ 'sec-fetch-site': 'cross-site' }),
    'read',
    403,
  ],
  ['reads values for its own pages', request({ origin: 'http://localhost:6070' }), 'read', 'loopback'],
])('without tokens, a client %s', (_, from, need, expected) => {
  expect(admitted(from, need, { hosts: ['weir.local'] })).toBe(expected);
});

test.each<[string, IncomingMessage, Need, string | number]>([
  ['of the role operate may change', request(bearer('s1'), '10.0.0.7'), 'operate', 'anna'],
  ['of the role operate may read', request(bearer('s1'), '10.0.0.7'), 'read', 'anna'],
  ['of the role read may read', request(bearer('s2'), '10.0.0.7'), 'read', 'ben'],
  ['of the role read may not change', request(bearer('s2')), 'operate', 403],
  ['that is invalid is refused even on open pages', request(bearer('s3')), 'open', 401],
  ['is no use to a page of another site', request({ ...bearer('s1'), origin: 'http://evil.example' }), 'operate', 403],
])('if tokens are set, a token %s', (_, from, need, expected) => {
  expect(admitted(from, need, { tokens })).toBe(expected);
});

test('if tokens are set, local requests need one, too', () => {
  expect(admitted(request(), 'read', { tokens })).toBe(401);
  expect(admitted(request(), 'open', { tokens })).toBe('anonymous, without values');
});

test('ADMIN_TOKEN is one secret, or several with names and roles', () => {
  expect(parseTokens('')).toEqual([]);
  expect(parseTokens('a,b:c')).toEqual([{ name: 'admin', role: 'operate', secret: 'a,b:c' }]);
  expect(parseTokens('a:read:x:y,b:operate:z')).toEqual([
    { name: 'a', role: 'read', secret: 'x:y' },
    { name: 'b', role: 'operate', secret: 'z' },
  ]);
  expect(parseTokens('a:read:x,a:operate:y')).toBeUndefined();
});

test('sessions of a token that may only read end no session of an operator', () => {
  const sessions = new Sessions(() => 0, 6070);
  const [operator, reader] = tokens;
  if (!operator || !reader) throw new Error('two tokens are set');
  const cookieOf = ({ setCookie }: ReturnType<Sessions['open']>): IncomingMessage =>
    request({ cookie: setCookie.split(';')[0] ?? '' });
  const ofOperator = cookieOf(sessions.open(operator, request()));
  const ofReader = cookieOf(sessions.open(reader, request()));
  for (let count = 0; count < 1_000; count++) sessions.open(reader, request());
  expect(sessions.of(ofOperator)?.token).toBe(operator);
  expect(sessions.of(ofReader)).toBeUndefined();
});
