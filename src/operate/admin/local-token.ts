import { lstatSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getuid } from 'node:process';

/** The folder of this user's tokens, by port. */
const folder = (): string => join(tmpdir(), `weir-${getuid?.() ?? 'tokens'}`);

const fileOf = (port: number): string => join(folder(), `${port}.token`);

/** Whether nobody else can have put files into the folder: any user may create one of this name. */
function isOwn(): boolean {
  const { uid, mode } = lstatSync(folder());
  return uid === (getuid?.() ?? uid) && (mode & 0o022) === 0;
}

/** Keeps the token of this start readable for this user only, so that commands here need no `--token`. */
export function keepLocalToken(port: number, token: string): { close(): Promise<void> } {
  try {
    mkdirSync(folder(), { recursive: true, mode: 0o700 });
    if (isOwn()) {
      rmSync(fileOf(port), { force: true });
      writeFileSync(fileOf(port), token, { mode: 0o600, flag: 'wx' });
    }
  } catch {} // the disk is read-only, for example
  return {
    async close() {
      if (readToken(port) === token) rmSync(fileOf(port), { force: true });
    },
  };
}

const LOOPBACK_HOST = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/** The token of the service at an address of this machine; undefined: there is none, or it has another user. */
export function readLocalToken({ hostname, port }: URL): string | undefined {
  return LOOPBACK_HOST.test(hostname) ? readToken(Number(port)) : undefined;
}

function readToken(port: number): string | undefined {
  try {
    return isOwn() ? readFileSync(fileOf(port), 'utf8') : undefined;
  } catch {
    return undefined;
  }
}
