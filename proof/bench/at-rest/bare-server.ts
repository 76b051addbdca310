import { fileURLToPath } from 'node:url';
import { freePort } from '../../../test/helpers/process.ts';
import type { Site } from './site.ts';

const PROGRAM = `
require('node:net')
  .createServer((socket) => socket.on('error', () => {}).resume())
  .listen(Number(process.env.BARE_PORT), '127.0.0.1');
`;

/** A server that only accepts connections, for the cost of a `net.Socket` alone. */
export async function bareSite(): Promise<Site> {
  const grpcPort = await freePort();
  return {
    name: 'bare `net.Socket`',
    command: process.execPath,
    args: ['-e', PROGRAM],
    env: { BARE_PORT: String(grpcPort) },
    grpcPort,
    remove: () => {},
  };
}

/** A Node server that answers calls without deciding anything, with the least possible work per connection. */
export async function cannedSite(): Promise<Site> {
  const grpcPort = await freePort();
  return {
    name: '`net.createServer`, one fixed answer',
    command: process.execPath,
    args: ['--import', 'tsx', fileURLToPath(new URL('./canned-process.ts', import.meta.url))],
    env: { CANNED_PORT: String(grpcPort) },
    grpcPort,
    remove: () => {},
  };
}
