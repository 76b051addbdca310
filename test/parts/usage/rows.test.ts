import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { MAIN } from '../../helpers/weir.ts';

test('weir usage --csv fails if the service has more rows than it answers, instead of leaving some out', async () => {
  const row = { domain: 'd', rule: 'd.user', key: 'user=alice', hits: 1 };
  const body = {
    from: '2026-11-01T00:00Z',
    to: '2026-12-01T00:00Z',
    by: 'key',
    per: 'total',
    hits: 8,
    more: 7,
    rows: [row],
  };
  const server = createServer((_, response) => {
    response.setHeader('content-type', 'application/json').end(JSON.stringify(body));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const target = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const usage = (...args: readonly string[]) =>
    promisify(execFile)(process.execPath, [MAIN, 'usage', '--target', target, ...args]);
  await expect(usage('--csv')).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining('left out 7 rows') });
  expect((await usage('--csv', '--count', '1')).stdout).toContain('user=alice,1');
  expect((await usage()).stdout).toContain('and 7 more: --count');
  server.close();
});
