import { execFile } from 'node:child_process';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { MAIN } from '../../helpers/weir.ts';
import { ask, folder, redis, settled, start, untilReported, usageOf } from './used-service.ts';

test('usage of a budget is shown as money, beside hits', async () => {
  const weir = await start({ REDIS_URL: redis.url, CACHE_KEY_PREFIX: 'money:', USAGE_DIR: join(folder, 'money') });
  await ask(weir, { user: 'alice' }, 3);
  await ask(weir, { lookup: 'acme' }, 1_001);
  await ask(weir, { lookup: 'acme' }, -1);
  await ask(weir, { lookup: 'other' }, 3);
  await ask(weir, { lookup: 'other' }, 8_000); // refused
  await untilReported(weir, ({ spent }) => spent?.USD === 12_537_500_000);
  const until = ['--from', '2026-01-01', '--to', '9999-01-01'];
  expect(await usageOf(weir, '--csv', ...until)).toBe(
    [
      'domain,rule,key,hits,cost,currency',
      'shop,shop.lookup,lookup=acme,,12.50,USD',
      'shop,shop.lookup,lookup=other,,0.0375,USD',
      'shop,shop.user,user=alice,3,,',
      '',
    ].join('\n'),
  );
  expect(await usageOf(weir, ...until)).toMatch(
    /^3 hits, 12.5375 USD from .*\n *12.50 USD {2}lookup=acme {2}shop.lookup\n/,
  );
});

test.each(['memory', 'Redis'])('each child of a shared limit in %s has a row of its own', async (store) => {
  const env = { CACHE_KEY_PREFIX: 'children:', USAGE_DIR: join(folder, `children-${store}`) };
  const weir = await start({ ...env, ...(store === 'Redis' && { REDIS_URL: redis.url }) });
  await ask(weir, { api: 'v1' }, 1);
  await ask(weir, { api: 'v1', org: 'acme', team: 'red' }, 4);
  await ask(weir, { api: 'v1', org: 'acme', team: 'red' }, 500); // refused
  await ask(weir, { api: 'v1', org: 'acme', team: 'red' }, -1);
  await ask(weir, { api: 'v1', org: 'other' }, 2);
  await settled(weir, 6);
  expect(await usageOf(weir, '--csv')).toBe(
    [
      'domain,rule,key,hits',
      'shop,shop.api.org_acme.team,"api=v1,org=acme,team=red",3',
      'shop,shop.api.org,"api=v1,org=other",2',
      'shop,shop.api,api=v1,1',
      '',
    ].join('\n'),
  );
});

test('unused hits of a lease are not usage once they have been given back', async () => {
  const env = { REDIS_URL: redis.url, CACHE_KEY_PREFIX: 'leased:', CONSISTENCY: 'leased' };
  const weir = await start({ ...env, USAGE_DIR: join(folder, 'leased') });
  for (let at = 0; at < 200; at++) await ask(weir, { team: 'red' }, 1);
  await settled(weir, 200);
});

test('values are hashed with HASH_KEYS, and no other user can read the files', async () => {
  const directory = join(folder, 'hashed');
  const weir = await start({ USAGE_DIR: directory, HASH_KEYS: 'true', HASH_KEY: 'secret' });
  await ask(weir, { user: 'alice' }, 3);
  await settled(weir, 3);
  expect(await usageOf(weir, '--csv')).toMatch(/,user=#[\w-]{16},3\n/);
  for (const name of await readdir(directory)) {
    expect((await stat(join(directory, name))).mode & 0o077).toBe(0);
    if (name.endsWith('.gz'))
      expect(gunzipSync(await readFile(join(directory, name))).toString()).not.toContain('alice');
  }
});

test('weir forget deletes counters and usage of a key, collected or not, and of no other one', async () => {
  const env = { REDIS_URL: redis.url, CACHE_KEY_PREFIX: 'forget:', HASH_KEYS: 'true', HASH_KEY: 'secret' };
  const weir = await start({ ...env, USAGE_DIR: join(folder, 'forget'), ADMIN_TOKEN: 'token' });
  const [target, token] = [
    ['--target', `127.0.0.1:${weir.debugPort}`],
    ['--token', 'token'],
  ];
  await ask(weir, { user: 'alice' }, 3);
  await ask(weir, { user: 'bob' }, 4);
  await settled(weir, 7, 'token');
  await ask(weir, { user: 'alice' }, 2); // not collected yet
  const args = [MAIN, 'forget', 'shop', 'user=alice', '--reason', 'test', ...target, ...token];
  expect((await promisify(execFile)(process.execPath, args)).stdout).toMatch(
    /^2 counters reset\n\d rows? of usage deleted\n$/,
  );
  expect(JSON.parse(await usageOf(weir, '--json', ...token)).hits).toBe(4);
  const state = await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/counters?domain=shop&descriptor=user=alice`, {
    headers: { authorization: 'Bearer token' },
  });
  expect(((await state.json()) as { counters: { used: number }[] }).counters.map(({ used }) => used)).toEqual([0, 0]);
});

test('an instance that only counts leaves usage to another one, and says so', async () => {
  const env = { REDIS_URL: redis.url, CACHE_KEY_PREFIX: 'shared:' };
  const [keeps, counts] = [
    await start({ ...env, USAGE_DIR: join(folder, 'kept') }),
    await start({ ...env, USAGE: 'true' }),
  ];
  await ask(keeps, { user: 'alice' }, 1);
  await ask(counts, { user: 'alice' }, 2);
  await settled(keeps, 3);
  await expect(usageOf(counts)).rejects.toThrow('this instance keeps no usage: set USAGE_DIR or USAGE_URL');
});
