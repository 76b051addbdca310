import '../helpers/realm.ts';
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Client, credentials } from '@grpc/grpc-js';
import type { MethodDefinition } from '@grpc/proto-loader';
import { load, loadAll } from 'js-yaml';
import { kuadrantService } from '../../src/parts/kuadrant/service.ts';
import { parseMapping } from '../../src/parts/replay/mapping/mapping.ts';
import { createClient, type GrpcClient } from '../helpers/grpc-client.ts';
import { accepts, freePort, start } from '../helpers/process.ts';
import { nginx } from '../helpers/tools.ts';
import { Upstream } from '../helpers/upstream.ts';
import { MAIN, startWeir, type Weir } from '../helpers/weir.ts';

const PAGE = readFileSync(fileURLToPath(new URL('../../docs/proxies.md', import.meta.url)), 'utf8');
const folder = mkdtempSync(join(tmpdir(), 'proxies-'));

/** The blocks of a section of the page, and the paths of the files that have them. */
const blocksOf = (heading: string): readonly { readonly text: string; readonly path: string }[] => {
  const [, section = ''] = PAGE.split(`\n${heading}\n`);
  const [own = ''] = section.split(/\n#{2,3} /);
  return Array.from(own.matchAll(/^```\w+\n(.*?)^```/gms), ([, text = ''], at) => {
    const path = join(folder, `${heading.replace(/\W+/g, '')}-${at}.yaml`);
    writeFileSync(path, text);
    return { text, path };
  });
};

const CODES = ['UNKNOWN', 'OK', 'OVER_LIMIT'];

interface Entry {
  readonly key: string;
  readonly value: string;
}

const descriptorOf = (entries: readonly Entry[], hits?: number) => ({
  entries,
  limit: null,
  hits_addend: hits === undefined ? null : { value: hits },
  is_negative_hits: false,
});

/** Runs a test with a service that has the rules of a section, and no others. */
async function withService(rules: string, run: (weir: Weir, client: GrpcClient) => Promise<void>, env = {}) {
  await promisify(execFile)(process.execPath, [MAIN, 'check', '--strict', rules]);
  const weir = await startWeir({ USE_STATSD: 'false', ...env }, { args: ['--rules', rules] });
  const client = createClient(`127.0.0.1:${weir.grpcPort}`);
  try {
    await run(weir, client);
  } finally {
    client.close();
    await weir.stop();
  }
}

/** A descriptor of agentgateway's `remoteRateLimit`. */
interface GatewayDescriptor {
  readonly entries: readonly Entry[];
  readonly type?: 'requests' | 'tokens';
}

/** The value of an expression for a request; undefined if it fails. */
const evaluate = (expression: string, { sub }: { readonly sub?: string }): string | undefined =>
  /^".*"$/.test(expression) ? expression.slice(1, -1) : expression === 'jwt.sub' ? sub : undefined;

test('agentgateway: a missing attribute is refused, and costs count against the next request', async () => {
  const [configured, rules] = blocksOf('## agentgateway');
  const { binds } = load(configured?.text ?? '') as {
    binds: {
      listeners: {
        routes: { policies: { remoteRateLimit: { domain: string; descriptors: GatewayDescriptor[] } } }[];
      }[];
    }[];
  };
  const policy = binds[0]?.listeners[0]?.routes[0]?.policies.remoteRateLimit;
  if (!policy) throw new Error('expected remoteRateLimit');
  await withService(rules?.path ?? '', async (weir, client) => {
    /** Drops a descriptor whose expressions fail, and sends no call without descriptors, as agentgateway does. */
    const call = async (type: 'requests' | 'tokens', jwt: { sub?: string }, hits?: number): Promise<string> => {
      const descriptors = policy.descriptors
        .filter((one) => (one.type ?? 'requests') === type)
        .flatMap(({ entries }) => {
          const values = entries.map(({ key, value }) => ({ key, value: evaluate(value, jwt) }));
          return values.every(({ value }) => value !== undefined) ? [descriptorOf(values as Entry[], hits)] : [];
        });
      if (descriptors.length === 0) return 'no call';
      const { overall_code } = await client.send({ domain: policy.domain, descriptors, hits_addend: 0 });
      return CODES[overall_code] ?? '';
    };
    expect([await call('requests', { sub: 'ann' }), await call('tokens', { sub: 'ann' }, 0)]).toEqual(['OK', 'OK']);
    expect(await call('tokens', { sub: 'ann' }, 6_000_000)).toBe('OVER_LIMIT'); // its answer is ignored
    expect([await call('requests', { sub: 'ann' }), await call('tokens', { sub: 'ann' }, 0)]).toEqual([
      'OK',
      'OVER_LIMIT',
    ]);
    expect(await call('tokens', { sub: 'bob' }, 0)).toBe('OK');
    expect([await call('requests', {}), await call('tokens', {}, 0)]).toEqual(['OVER_LIMIT', 'OVER_LIMIT']);
    const { descriptors } = (await (await fetch(`http://127.0.0.1:${weir.debugPort}/api/v1/unmatched`)).json()) as {
      descriptors: readonly { readonly reason: string; readonly count: number }[];
    };
    expect(descriptors.find(({ reason }) => reason === 'required_key_missing')).toMatchObject({ count: 2 });
    const metrics = await (await fetch(`http://127.0.0.1:${weir.debugPort}/metrics`)).text();
    expect(metrics).toMatch(/^weir_requests_without_required_keys_total\{domain="llm"\} 2$/m);
  });
});

/** An entry of a descriptor in kgateway's `TrafficPolicy`, as an action of Envoy. */
const kgatewayAction = (entry: { type: string; generic?: Entry; header?: string }): object => {
  if (entry.type === 'Generic')
    return { generic_key: { descriptor_key: entry.generic?.key, descriptor_value: entry.generic?.value } };
  if (entry.type === 'RemoteAddress') return { remote_address: {} };
  const header = entry.type === 'Path' ? ':path' : entry.header;
  return { request_headers: { header_name: header, descriptor_key: entry.type === 'Path' ? 'path' : header } };
};

test('kgateway: the descriptors of the policy match the rules, and a request without the header has the strict limit', async () => {
  const [configured, rules] = blocksOf('## kgateway');
  const resources = loadAll(configured?.text ?? '') as {
    kind: string;
    spec: { rateLimit: { domain: string; global: { descriptors: { entries: { type: string }[] }[] } } };
  }[];
  const { domain } = resources[0]?.spec.rateLimit ?? { domain: '' };
  const actions = resources[2]?.spec.rateLimit.global.descriptors.map(({ entries }) => ({
    actions: entries.map(kgatewayAction),
  }));
  const parsed = parseMapping('policy', JSON.stringify({ domain, rate_limits: actions }));
  if (!('mapping' in parsed)) throw new Error(JSON.stringify(parsed.problems));
  await withService(rules?.path ?? '', async (_, client) => {
    const ask = async (fields: object): Promise<string> => {
      const read = parsed.mapping.request({ time: '2026-11-27T00:00:00Z', path: '/', ip: '10.0.0.1', ...fields });
      if (!read || typeof read === 'string') throw new Error(`expected a request, got ${read}`);
      const descriptors = read.request.descriptors.map(({ entries }) => descriptorOf(entries));
      const { overall_code } = await client.send({ domain, descriptors, hits_addend: 0 });
      return CODES[overall_code] ?? '';
    };
    const times = async (count: number, fields: object): Promise<readonly string[]> => {
      const codes: string[] = [];
      for (let at = 0; at < count; at++) codes.push(await ask(fields));
      return codes;
    };
    expect((await times(12, { 'x-user': 'ann' })).every((code) => code === 'OK')).toBe(true);
    expect((await times(11, {})).lastIndexOf('OK')).toBe(9); // ten a minute by address
    expect((await times(6, { 'x-user': 'bob', path: '/login?x', ip: '10.0.0.2' })).lastIndexOf('OK')).toBe(4);
  });
});

test('Kuadrant: descriptors of a policy match the rules, and those without a user are refused', async () => {
  const [, rules] = blocksOf('## Kuadrant');
  await withService(rules?.path ?? '', async (weir) => {
    const client = new Client(`127.0.0.1:${weir.grpcPort}`, credentials.createInsecure());
    const call = (method: 'CheckRateLimit' | 'Report', entries: readonly Entry[], hits: number): Promise<unknown> =>
      new Promise((resolve, reject) => {
        const { path, requestSerialize, responseDeserialize } = kuadrantService[method] as MethodDefinition<
          object,
          object
        >;
        const request = { domain: 'default/llm', hits_addend: hits, descriptors: [{ entries }] };
        client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, (error, answer) =>
          error ? reject(error) : resolve((answer as { overall_code: unknown }).overall_code),
        );
      });
    const limit = { key: 'limit.free__7f3a9c01', value: '1' };
    const ann = [limit, { key: 'auth.identity.userid', value: 'ann' }];
    const codes = [
      await call('CheckRateLimit', ann, 1),
      await call('Report', ann, 1_000),
      await call('CheckRateLimit', ann, 1),
    ];
    expect(codes.map(String)).toEqual(
      ['OK', 'OK', 'OVER_LIMIT'].map((name) => expect.stringMatching(new RegExp(`^(${name}|${CODES.indexOf(name)})$`))),
    );
    expect(String(await call('CheckRateLimit', [limit], 1))).toMatch(/OVER_LIMIT|2/);
    client.close();
  });
});

test('NGINX makes 429 of a refusal, and passes on the headers of the limit', async () => {
  const [mapping, rules] = blocksOf('## Requests to `/authz`');
  const [{ text = '' } = {}] = blocksOf('### NGINX');
  const upstream = new Upstream((_, response) => response.end('done'));
  const upstreamPort = await upstream.listen();
  const run = async (weir: Weir): Promise<void> => {
    const port = await freePort();
    const server = text
      .replace('listen 80', `listen 127.0.0.1:${port}`)
      .replace('http://upstream', `http://127.0.0.1:${upstreamPort}`)
      .replace('weir:8080', `127.0.0.1:${weir.httpPort}`);
    const prefix = mkdtempSync(join(tmpdir(), 'nginx-'));
    mkdirSync(join(prefix, 'logs'));
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (name) => `${name}_temp_path ${prefix}/${name};`,
    );
    writeFileSync(
      join(prefix, 'nginx.conf'),
      `daemon off; pid ${prefix}/pid; error_log stderr; events {}\nhttp { access_log off; ${temporary.join(' ')}\n${server}\n}\n`,
    );
    const proxy = await start(await nginx(), ['-p', prefix, '-e', 'stderr', '-c', join(prefix, 'nginx.conf')], {
      name: 'nginx',
    });
    try {
      await proxy.waitFor(() => accepts(port));
      const get = async (path: string, headers: Record<string, string>) => {
        const { status, headers: sent } = await fetch(`http://127.0.0.1:${port}${path}`, { headers });
        return [status, sent.get('x-ratelimit-remaining')];
      };
      expect(await get('/cart', { 'x-user': 'ann' })).toEqual([200, '99']);
      for (let left = 4; left >= 0; left--)
        expect(await get('/login?a', { 'x-user': 'ann' })).toEqual([200, String(left)]);
      // a client cannot choose its address or its path
      const spoofed = { 'x-user': 'ann', 'x-forwarded-for': '6.6.6.6', 'x-forwarded-uri': '/cart' };
      expect((await get('/login', spoofed))[0]).toBe(429);
      for (let left = 9; left >= 0; left--) expect(await get('/cart', {})).toEqual([200, String(left)]);
      expect((await get('/cart', {}))[0]).toBe(429);
    } finally {
      await proxy.stop();
    }
  };
  try {
    await withService(rules?.path ?? '', run, { AUTHZ_MAPPING: mapping?.path ?? '' });
  } finally {
    upstream.close();
  }
});
