import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import express, { type RequestHandler } from 'express';
import { RateLimiterMemory } from 'rate-limiter-flexible';
import { rateLimit } from '../../client/src/express.ts';
import { createClient } from '../../client/src/index.ts';
import { createEngine } from '../../src/engine/index.ts';
import { runIn } from '../helpers/packed.ts';
import { CACHE, install, isThere } from '../helpers/tools.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const page = readFileSync(join(PROJECT, 'docs/from-node-limiters.md'), 'utf8');
const rules = { text: /```yaml\n(.*?)```/s.exec(page)?.[1] ?? '' };

/** The options in the table of a section. */
function optionsOn(title: string): readonly string[] {
  const section = page.split(/^## /m).find((part) => part.startsWith(title)) ?? '';
  const table = section.slice(section.indexOf('| option |'));
  return [...table.matchAll(/^\| (`.*?`) \|/gm)]
    .flatMap(([, cell = '']) => cell.replaceAll('`', '').split(', '))
    .sort();
}

/** The names of the properties in these declarations of a file. */
function propertiesIn(path: string, declarations: readonly string[]): readonly string[] {
  const text = readFileSync(path, 'utf8');
  const names = declarations.flatMap((head) => {
    const body = text.slice(text.indexOf(head)).split(/^\};?$/m)[0] ?? '';
    return [...body.matchAll(/^(?:\t| {2,4})(\w+)\??:/gm)].map(([, name = '']) => name);
  });
  return [...new Set(names)].sort();
}

/** Installs express-rate-limit once. @returns  its folder */
async function expressRateLimit(): Promise<string> {
  const target = join(CACHE, 'client-frameworks', 'express-rate-limit-8');
  if (!(await isThere(target)))
    await install(target, async (into) => {
      mkdirSync(into);
      writeFileSync(join(into, 'package.json'), '{ "private": true }');
      const quietly = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-package-lock'];
      await runIn(into, 'npm', ['install', ...quietly, 'express-rate-limit@8.7.5']);
    });
  return join(target, 'node_modules/express-rate-limit');
}

test('every option of the three packages is mapped, and no other', async () => {
  const modules = join(PROJECT, 'node_modules');
  expect(optionsOn('express-rate-limit')).toEqual(
    propertiesIn(join(await expressRateLimit(), 'dist/index.d.ts'), ['export type Options =']),
  );
  const ofRedis = ['IRateLimiterOptions', 'IRateLimiterStoreOptions', 'IRateLimiterRedisOptions'];
  expect(optionsOn('rate-limiter-flexible')).toEqual(
    propertiesIn(
      join(modules, 'rate-limiter-flexible/types.d.ts'),
      ofRedis.map((name) => `interface ${name} `),
    ),
  );
  expect(optionsOn('@upstash/ratelimit')).toEqual(
    propertiesIn(join(modules, '@upstash/ratelimit/dist/index.d.ts'), ['type RegionRatelimitConfig =']),
  );
});

/** The statuses of ten requests. */
async function statusesWith(limiter: RequestHandler): Promise<readonly number[]> {
  const app = express().use(limiter);
  app.get('/', (_, response) => void response.send('hello'));
  const server = app.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const address = server.address();
  const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/`;
  const statuses: number[] = [];
  for (let calls = 0; calls < 10; calls++) statuses.push((await fetch(url)).status);
  await new Promise((resolve) => server.close(resolve));
  return statuses;
}

test('the rule of the page limits as express-rate-limit and rate-limiter-flexible do', async () => {
  const client = createClient({ engine: await createEngine({ rules }), timeoutMs: 60_000 });
  const { rateLimit: before } = createRequire(import.meta.url)(await expressRateLimit());
  const after = await statusesWith(rateLimit({ client, domain: 'shop' }));
  expect(after).toEqual(await statusesWith(before({ windowMs: 60_000, limit: 5 })));
  const limiter = new RateLimiterMemory({ points: 5, duration: 60 });
  for (let calls = 0; calls < 10; calls++) {
    const consumed = await limiter.consume('a').then(
      ({ remainingPoints }) => [true, remainingPoints],
      ({ remainingPoints }) => [false, remainingPoints],
    );
    const { ok, remaining } = await client.limit('shop', { remote_address: 'a' });
    expect([ok, remaining]).toEqual(consumed);
  }
  client.close();
});
