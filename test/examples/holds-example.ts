import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { closeAll, openClient, type Service, startService, TIMEOUT_MS } from '../client/service.ts';

export const EXAMPLE = fileURLToPath(new URL('../../examples/holds', import.meta.url));

/** A copy of the example, with the document of the service. */
export let folder: string;
export let service: Service;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'holds-'));
  cpSync(EXAMPLE, folder, { recursive: true });
  mkdirSync(join(folder, 'weir'), { recursive: true });
  service = await startService(readFileSync(join(EXAMPLE, 'rules.yaml'), 'utf8').replace('unit: hour', 'unit: day'));
  const document = await fetch(`http://127.0.0.1:${service.debugPort}/api/v1/openapi.json`);
  writeFileSync(join(folder, 'weir.json'), await document.text());
});
afterAll(async () => {
  await closeAll();
  rmSync(folder, { recursive: true });
});

export const run = (program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<string> =>
  promisify(execFile)(program, args, { cwd: folder, env: { ...process.env, ...env } }).then(({ stdout }) => stdout);

/** Runs a program with a slot, then while another holder has both slots. */
export async function expectToWork(language: string, program: (job: string) => Promise<string>): Promise<void> {
  const client = await openClient({ target: service.grpc });
  const before = await client.limit('jobs', { tokens: 'acme', request_id: language }, { hits: 0 });
  expect(await program(`${language}-1`)).toBe(`${language}-1: charged 640 tokens\n`);
  const after = await client.limit('jobs', { tokens: 'acme', request_id: language }, { hits: 0 });
  expect((before.remaining ?? 0) - (after.remaining ?? 0)).toBe(640);
  const run = () => expect(program(`${language}-2`)).rejects.toThrow('no slot');
  await client.withSlot('jobs', { tenant: 'acme' }, run, { hits: 2, timeoutMs: TIMEOUT_MS });
}
