import '../../helpers/realm.ts';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { type HttpServer, startHttpServer } from '../../../src/edge/http/server.ts';
import { findToken } from '../../../src/operate/admin/access.ts';
import { profileRoutes, takeProfile } from '../../../src/parts/profile/profile.ts';
import { eventually } from '../../helpers/until.ts';

const TOKEN = 'a token for admins';
const CPU = '/debug/pprof/profile';
const HEAP = '/debug/pprof/heap';

let server: HttpServer;
let errors: unknown[];
beforeEach(async () => {
  errors = [];
  const tokens = [{ name: 'admin', role: 'operate', secret: TOKEN }] as const;
  const isAllowed = ({ headers }: IncomingMessage) => findToken(headers.authorization, tokens) !== undefined;
  const routes = profileRoutes(isAllowed, takeProfile);
  server = await startHttpServer({ host: '127.0.0.1', port: 0 }, routes, (error) => errors.push(error));
});
afterEach(async () => {
  await server.close(0);
  expect(errors).toEqual([]);
});

const get = (path: string, authorization: string | undefined = `Bearer ${TOKEN}`): Promise<Response> =>
  fetch(`http://127.0.0.1:${server.port}${path}`, { headers: { ...(authorization && { authorization }) } });

test.each(['/debug/pprof/profile?seconds=1', '/debug/pprof/heap?seconds=1'])('%s takes a profile', async (path) => {
  let kept: object[] = []; // a heap profile shows objects in use at its end
  const busy = setInterval(() => {
    for (let count = 0; count < 100_000; count++) kept.push({ count });
    if (kept.length > 1_000_000) kept = kept.slice(-500_000);
  }, 1);
  const { name, keys } = path.startsWith(CPU)
    ? { name: 'weir.cpuprofile', keys: ['nodes', 'startTime', 'endTime', 'samples', 'timeDeltas'] }
    : { name: 'weir.heapprofile', keys: ['head', 'samples'] };
  const namesThisFile = async (): Promise<boolean> => {
    const response = await get(path);
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('application/json');
    expect(response.headers.get('content-disposition')).toBe(`attachment; filename="${name}"`);
    const profile = await response.json();
    expect(Object.keys(profile as object)).toEqual(expect.arrayContaining(keys));
    return JSON.stringify(profile).includes('profile.test.ts'); // it used the time, or allocated the objects
  };
  // on a busy machine, a profile of a second may have a single sample
  await eventually(namesThisFile).finally(() => clearInterval(busy));
});

/** Whether a profile is being taken, without starting one. */
const isBusy = async (): Promise<boolean> => (await get(`${HEAP}?seconds=0`)).status === 409;

test.each([
  ['no token', ''],
  ['a token cut short', `Bearer ${TOKEN.slice(0, -1)}`],
  ['an empty token', 'Bearer '],
  ['another scheme', `Basic ${TOKEN}`],
])('a profile is refused with 401 with %s', async (_, authorization) => {
  for (const path of [CPU, HEAP]) {
    const response = await get(path, authorization);
    expect(response.status).toBe(401);
    expect(response.headers.get('www-authenticate')).toBe('Bearer realm="weir"');
  }
});

test.each(['0', '61', '1.5', '', 'ten', '-1'])('a profile of %j seconds is refused with 400', async (seconds) => {
  const response = await get(`${CPU}?seconds=${seconds}`);
  expect([response.status, await response.text()]).toEqual([400, 'seconds must be a whole number from 1 to 60\n']);
});

test('one profile is taken at a time, and ends when its client disconnects', async () => {
  const socket = connect(server.port, '127.0.0.1');
  socket.write(`GET ${CPU}?seconds=60 HTTP/1.1\r\nhost: weir\r\nauthorization: bearer ${TOKEN}\r\n\r\n`);
  while (!(await isBusy())); // until it has begun
  socket.destroy();
  await once(socket, 'close');
  while (await isBusy()); // until it has ended
});

test('a closing server does not wait for a profile', async () => {
  const response = get(`${CPU}?seconds=60`);
  while (!(await isBusy()));
  await Promise.all([server.close(0), expect(response).rejects.toThrow('fetch failed')]);
});
