import { mkdtempSync, renameSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runCommand } from '../helpers/command.ts';
import { start } from '../helpers/process.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

export const RULES = `
domain: demo
descriptors:
  - key: user
    rate_limit: { name: per-user, unit: day, requests_per_unit: 2 }
`;

/** A new folder for each test. */
export let folder: string;
export const stops: (() => Promise<unknown>)[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'weir-'));
});
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

/** Writes a file atomically: the service may be reading it. */
export function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(`${path}.new`, text);
  renameSync(`${path}.new`, path);
  return path;
}

/** Runs a command to its end. */
export async function weir(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const { code, stdout, stderr } = await runCommand(args, { env });
  return { code, output: stdout + stderr };
}

/** Runs a program to its end. */
export async function run(program: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const running = await start(program, args, { env: { PATH: process.env.PATH, TMPDIR: process.env.TMPDIR, ...env } });
  const { code } = await running.exited;
  return { code, output: running.output() };
}

/** Starts a service that is stopped after the test. */
export async function service(env: Readonly<Record<string, string>>, args: readonly string[] = []): Promise<Weir> {
  const started = await startWeir(env, { args });
  stops.push(started.stop);
  return started;
}

export const ask = ({ grpcPort }: Weir, ...args: string[]) => weir(['ask', ...args, '--grpc', `127.0.0.1:${grpcPort}`]);
