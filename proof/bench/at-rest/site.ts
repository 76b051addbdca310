import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../../test/helpers/process.ts';
import { MAIN } from '../../../test/helpers/weir.ts';
import type { Question } from '../generator/requests.ts';
import { DOMAIN, type Shape } from '../shapes.ts';
import { envoyRules, limitadorArguments, referenceEnvironment } from '../subjects.ts';

const USER = 'user';

/** The content of every call; it matches the only rule, whose limit is not reached. */
export const QUESTION: Question = { domain: DOMAIN, descriptors: [{ key: USER, value: 'ann' }] };

const shape: Pick<Shape, 'rules' | 'denyCacheBytes'> = {
  rules: [{ key: USER, requestsPerUnit: 1_000_000_000, unit: 'HOUR', algorithm: 'fixed_window' }],
  denyCacheBytes: 0,
};

/** A service to start, with its configuration. */
export interface Site {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly grpcPort: number;
  remove(): void;
}

/**
 * Weir with its defaults.
 *
 * @param env  further settings
 */
export async function weirSite(name: string, env: Readonly<Record<string, string>> = {}): Promise<Site> {
  const folder = mkdtempSync(join(tmpdir(), 'rest-'));
  const rules = join(folder, 'rules.yaml');
  writeFileSync(rules, envoyRules(shape.rules));
  const grpcPort = await freePort();
  return {
    name,
    command: process.execPath,
    args: [MAIN, 'serve'],
    env: {
      HOST: '127.0.0.1',
      GRPC_HOST: '127.0.0.1',
      DEBUG_HOST: '127.0.0.1',
      GRPC_PORT: String(grpcPort),
      PORT: String(await freePort()),
      DEBUG_PORT: String(await freePort()),
      RULES_PATH: rules,
      ...env,
    },
    grpcPort,
    remove: () => rmSync(folder, { recursive: true }),
  };
}

/** envoyproxy/ratelimit, counting in Redis. */
export async function referenceSite(name: string, program: string, redisUrl: string): Promise<Site> {
  const folder = mkdtempSync(join(tmpdir(), 'rest-'));
  const grpcPort = await freePort();
  const env = await referenceEnvironment(shape, { folder, redisUrl }, grpcPort);
  return { name, command: program, args: [], env, grpcPort, remove: () => rmSync(folder, { recursive: true }) };
}

/** Limitador, counting in memory. */
export async function limitadorSite(name: string, program: string): Promise<Site> {
  const folder = mkdtempSync(join(tmpdir(), 'rest-'));
  const grpcPort = await freePort();
  const args = await limitadorArguments(shape.rules, folder, grpcPort);
  return { name, command: program, args, env: {}, grpcPort, remove: () => rmSync(folder, { recursive: true }) };
}
