import { createHash } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { packageRoot } from '../../base/package-root.ts';
import { acceptsGzip } from '../../edge/http/compressed.ts';
import { type Page, plain, type Route } from '../../edge/http/server.ts';

/** The console's files, made by the build. */
export const consoleFolder = fileURLToPath(new URL('dist/console/', packageRoot));

const contentTypes: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
};

/** Only the console's own files run, and nothing is requested from other hosts. */
const POLICY = [
  "default-src 'none'",
  ...["script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'", "worker-src 'self'"],
  ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
].join('; ');

const securityHeaders = {
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
} as const;

/** A file, kept in memory after its first request. */
interface Asset {
  readonly plain: Buffer;
  /** Made by the build. */
  readonly gzip: Buffer | undefined;
  readonly hash: string;
}

/** The routes of the console's files. A file is not read before it is requested. */
export function assetRoutes(folder: string): ReadonlyMap<string, Route> {
  const names = existsSync(folder) ? readdirSync(folder) : [];
  const files = names.filter((name) => /\.(html|js|css|svg)$/.test(name));
  const routes = new Map<string, Route>(
    files.map((name) => [
      `/console/${name === 'index.html' ? '' : name}`,
      { help: name === 'index.html' ? 'the console' : 'a file of the console', answer: assetPage(folder, name) },
    ]),
  );
  if (routes.size === 0) return routes;
  return routes.set('/console', {
    help: 'the console',
    answer: () => ({ ...plain(308, ''), headers: { location: 'console/' } }), // relative, since a proxy may have removed a prefix
  });
}

function assetPage(folder: string, name: string): Route['answer'] {
  let loaded: Promise<Asset> | undefined;
  const contentType = contentTypes[name.slice(name.lastIndexOf('.') + 1)] ?? 'application/octet-stream';
  return async (request): Promise<Page> => {
    loaded ??= load(folder, name);
    const asset = await loaded.catch((error) => {
      loaded = undefined;
      throw error;
    });
    const isGzip = asset.gzip !== undefined && acceptsGzip(request);
    const etag = `"${asset.hash}${isGzip ? '-gzip' : ''}"`;
    const headers = { ...securityHeaders, etag, 'cache-control': 'no-cache', vary: 'accept-encoding' };
    const known = String(request.headers['if-none-match'] ?? '').split(/,\s*/);
    if (known.includes(etag) || known.includes(`W/${etag}`)) return { status: 304, contentType, headers, body: '' };
    if (isGzip)
      return { status: 200, contentType, headers: { ...headers, 'content-encoding': 'gzip' }, body: asset.gzip };
    return { status: 200, contentType, headers, body: asset.plain };
  };
}

async function load(folder: string, name: string): Promise<Asset> {
  const plainBytes = await readFile(`${folder}/${name}`);
  const gzip = await readFile(`${folder}/${name}.gz`).catch(() => undefined);
  return { plain: plainBytes, gzip, hash: createHash('sha256').update(plainBytes).digest('base64url').slice(0, 22) };
}
