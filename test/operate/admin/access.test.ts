import '../../helpers/realm.ts';
import type { IncomingMessage } from 'node:http';
import { type AccessOptions, admit, type Need, parseTokens, Sessions } from '../../../src/operate/admin/access.ts';
import { ApiProblem } from '../../../src/operate/admin/problem.ts';

const request = (headers: Record<string, string> = {}, remoteAddress = '127.0.0.1'): IncomingMessage =>
  ({
    headers: { host: 'localhost:6070', ...headers },
    headersDistinct: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, value.split('\n')])),
    socket: { remoteAddress },
  }) as unknown as IncomingMessage; // the only properties that are read

const admitted = (from: IncomingMessage, need: Need, options: Partial<AccessOptions> = {}): string | number => {
  try {
    const { name, seesValues } = admit(from, need, {
      tokens: [],
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

const local = [{ name: 'local', role: 'read', secret: 's0', isLocal: true }] as const;

test.each<[string, IncomingMessage, Need, string | number]>([
  ['with the token of this start reads everything on this machine', request(bearer('s0')), 'read', 'local'],
  [
    'with that token reads everything over IPv6',
    request({ ...bearer('s0'), host: '[::1]:6070' }, '::1'),
    'read',
    'local',
  ],
  ['with that token changes nothing', request(bearer('s0')), 'operate', 403],
  ['with that token reads no values from another machine', request(bearer('s0'), '10.0.0.7'), 'read', 403],
  [
    'with that token reads open pages from another machine',
    request(bearer('s0'), '10.0.0.7'),
    'open',
    'anonymous, without values',
  ],
  ['with another token is refused', request(bearer('s1')), 'read', 401],
  ['on this machine, which may be a proxy, reads no values', request(), 'read', 401],
  ['that is a proxy with a header reads no values', request({ 'x-real-ip': '10.0.0.7' }), 'read', 401],
  ['on this machine reads open pages without values', request(), 'open', 'anonymous, without values'],
  [
    'from another machine reads open pages without values',
    request({}, '10.0.0.7'),
    'open',
    'anonymous, without values',
  ],
  [
    'that is a page of another site reads no values',
    request({ ...bearer('s0'), origin: 'http://evil.example' }),
    'read',
    403,
  ],
  [
    'that a browser marks as another site reads no values',
    request({ ...bearer('s0'), 'sec-fetch-site': 'cross-site' }),
    'read',
    403,
  ],
])('without ADMIN_TOKEN, a client %s', (_, from, need, expected) => {
  expect(admitted(from, need, { tokens: local })).toBe(expected);
});

test('without ADMIN_TOKEN, a session that was opened on this machine ends at its border', () => {
  const sessions = new Sessions(() => 0, 6070);
  const cookie = sessions.open(local[0], request()).setCookie.split(';')[0] ?? '';
  expect(admitted(request({ cookie }), 'read', { tokens: local, sessions })).toBe('local');
  expect(admitted(request({ cookie }, '10.0.0.7'), 'read', { tokens: local, sessions })).toBe(403);
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
  expect(parseTokens('a:read@shop+till.eu:x:y,b:operate:z')).toEqual([
    { name: 'a', role: 'read', domains: ['shop', 'till.eu'], secret: 'x:y' },
    { name: 'b', role: 'operate', secret: 'z' },
  ]);
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

test('sessions of a token for one domain end no session of an operator', () => {
  const sessions = new Sessions(() => 0, 6070);
  const [all, some] = parseTokens('ops:operate:s1,ann:operate@shop:s2') ?? [];
  if (!all || !some) throw new Error('two tokens are set');
  const cookie = sessions.open(all, request()).setCookie.split(';')[0] ?? '';
  for (let count = 0; count < 1_001; count++) sessions.open(some, request());
  expect(sessions.of(request({ cookie }))?.token).toBe(all);
});

test.each<[string, string, Record<string, string>, string | number]>([
  ['names a person', '10.0.0.7', { 'x-user': 'anna@example.com' }, 'anna@example.com'],
  ['names nobody', '10.0.0.7', {}, 'ben'],
  ['adds to the name that the client sent', '10.0.0.7', { 'x-user': 'eve, anna' }, 403],
  ['sends another beside that of the client', '10.0.0.7', { 'x-user': 'eve\nanna' }, 403],
  ['is none, since its address is another', '10.0.0.8', { 'x-user': 'eve' }, 'ben'],
])('a proxy that %s', (_, from, headers, expected) => {
  const identity = { header: 'x-user', isTrusted: (address: string) => address === '10.0.0.7' };
  expect(admitted(request({ ...bearer('s2'), ...headers }, from), 'read', { tokens, identity })).toBe(expected);
});

test('a name of a proxy gives no access without a token', () => {
  const identity = { header: 'x-user', isTrusted: () => true };
  expect(admitted(request({ 'x-user': 'anna' }), 'read', { tokens, identity })).toBe(401);
  expect(admitted(request({ 'x-user': 'anna' }), 'open', { tokens, identity })).toBe('anonymous, without values');
});
