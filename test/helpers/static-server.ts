import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join, normalize } from 'node:path';

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.woff2': 'font/woff2',
};

/** Serves the files of a folder on a free port of 127.0.0.1, like any web server. */
export async function serveFolder(folder: string): Promise<{ readonly origin: string; close(): void }> {
  const server = createServer(async ({ url = '/' }, response) => {
    const { pathname } = new URL(url, 'http://localhost');
    const path = normalize(decodeURIComponent(pathname.endsWith('/') ? `${pathname}index.html` : pathname));
    const body = await readFile(join(folder, path)).catch(() => undefined);
    response.writeHead(body ? 200 : 404, { 'content-type': types[extname(path)] ?? 'application/octet-stream' });
    response.end(body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // it listens on a port
  const close = () => {
    server.close();
    server.closeAllConnections();
  };
  return { origin: `http://127.0.0.1:${port}`, close };
}
