import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import type { AddressInfo, Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Client, type ClientOptions, createClient } from '../../client/src/index.ts';
import { startWeir, type Weir } from '../helpers/weir.ts';

/** Enough for any answer on a busy machine. */
export const TIMEOUT_MS = 60_000;

/** A running Weir with its own rules. */
export interface Service extends Weir {
  /** Targets of clients. */
  readonly grpc: string;
  readonly http: string;
}

const closing: (() => unknown)[] = [];

/** Registers a resource for `closeAll`, which closes in reverse order. */
export function closeLater(close: () => unknown): void {
  closing.push(close);
}

export async function closeAll(): Promise<void> {
  for (const close of closing.splice(0).reverse()) await close();
}

/** Listens on a free port of 127.0.0.1 until the end of the test. @returns the port */
export async function listen(server: Server): Promise<number> {
  closeLater(() => server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return (server.address() as AddressInfo).port; // a TCP server
}

/** Starts a Weir with these rules. @param isPatient  whether it has the settings for a busy machine */
export async function startService(
  rules: string,
  env: Readonly<Record<string, string>> = {},
  { isPatient = true } = {},
): Promise<Service> {
  const folder = mkdtempSync(join(tmpdir(), 'client-'));
  const path = join(folder, 'rules.yaml');
  writeFileSync(path, rules);
  const weir = await startWeir({ RULES_PATH: path, WORKERS: '1', ...env }, { isPatient });
  closeLater(() => weir.stop());
  return { ...weir, grpc: `127.0.0.1:${weir.grpcPort}`, http: `http://127.0.0.1:${weir.httpPort}` };
}

/** A client with a long timeout, unless the options set one. Waits until it is ready, if a server is up. */
export async function openClient(options: ClientOptions, { isUp = true } = {}): Promise<Client> {
  const client = createClient({ timeoutMs: TIMEOUT_MS, ...options });
  closeLater(() => client.close());
  if (isUp && !(await client.ready({ timeoutMs: TIMEOUT_MS }))) throw new Error('the service is not ready');
  return client;
}

export const RULES = `
domain: demo
spend: all_or_nothing
descriptors:
  - key: user
    rate_limit: { name: per-user, unit: day, requests_per_unit: 5 }
  - key: user
    value: told
    rate_limit: { unit: day, requests_per_unit: 0 }
    response: { body: 'slow down, per-user', headers: { X-Plan: free } }
  - key: api_key
    rate_limit: { unit: day, requests_per_unit: 100 }
  - key: bucket
    rate_limit: { algorithm: token_bucket, unit: day, requests_per_unit: 10, burst: 20 }
  - key: free
    rate_limit: { unlimited: true }
  - key: trial
    shadow_mode: true
    rate_limit: { unit: day, requests_per_unit: 1 }
  - key: slow
    rate_limit: { algorithm: leaky_bucket, unit: second, requests_per_unit: 5, burst: 5, max_delay: 5s }
  - key: tenant
    descriptors:
      - key: request_id
        not_counted: hold
        rate_limit: { algorithm: in_flight, requests_per_unit: 1, ttl: 2s }
`;
