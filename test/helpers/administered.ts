import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startWeir, type Weir } from './weir.ts';

const TOKEN = 'token';

/** The built service with rules and an admin token. */
export interface Administered {
  readonly weir: Weir;
  /** Calls the admin API. */
  call(method: string, path: string, body?: object): Promise<AdminAnswer>;
  /** Sends a request to /json. @returns the HTTP status */
  ask(request: object): Promise<number>;
  stop(): Promise<void>;
}

export interface AdminAnswer {
  readonly status: number;
  readonly body: ReturnType<typeof JSON.parse>;
}

/**
 * @param rules  one file, or one per domain
 * @param env  environment variables of the service besides the token
 */
export async function startAdministered(
  rules: string | readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Administered> {
  const folder = mkdtempSync(join(tmpdir(), 'administered-'));
  for (const [at, text] of [rules].flat().entries()) writeFileSync(join(folder, `rules${at || ''}.yaml`), text);
  const path = typeof rules === 'string' ? join(folder, 'rules.yaml') : folder;
  const weir = await startWeir({ ADMIN_TOKEN: TOKEN, USE_STATSD: 'false', ...env }, { args: ['--rules', path] });
  return {
    weir,
    async call(method, at, body) {
      const url = `http://127.0.0.1:${weir.debugPort}${at}`;
      const headers = { authorization: `Bearer ${TOKEN}` };
      const answer = await fetch(url, { method, headers, ...(body && { body: JSON.stringify(body) }) });
      return { status: answer.status, body: JSON.parse(await answer.text()) };
    },
    async ask(request) {
      const body = JSON.stringify(request);
      return (await fetch(`http://127.0.0.1:${weir.httpPort}/json`, { method: 'POST', body })).status;
    },
    async stop() {
      await weir.stop();
      rmSync(folder, { recursive: true });
    },
  };
}
