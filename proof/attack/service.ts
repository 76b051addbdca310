import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { createAuthority, writeCertificate } from '../../test/helpers/certificates.ts';
import { accepts, freePort } from '../../test/helpers/process.ts';
import { eventually, until } from '../../test/helpers/until.ts';
import type { Attack, Ports } from './attack.ts';
import { defaultRules } from './rules.ts';

/** A sample of the service's memory, in bytes. */
export interface Sample {
  readonly atMs: number;
  readonly heapUsed: number;
  /** Memory of JavaScript's objects outside the heap, `arrayBuffers` included. */
  readonly external: number;
  readonly arrayBuffers: number;
  readonly rss: number;
  /** Maximum time that the event loop was blocked since `resetStall`. */
  readonly stallMs: number;
}

/** A line that probe-thread.mjs writes. */
interface Line {
  readonly kind: 'sample' | 'collected';
  readonly atMs: number;
  readonly sample: Omit<Sample, 'atMs'>;
}

/** The service under attack. */
export interface Service {
  readonly ports: Ports;
  readonly rulesPath: string;
  /** All samples so far, ten a second. */
  readonly samples: readonly Sample[];
  /** Its end with its last lines of output; undefined while it runs. */
  readonly end: string | undefined;
  /** Forces a collection; undefined if the process has ended or did not answer for ten seconds. */
  collect(): Promise<Sample | undefined>;
  resetStall(): void;
  stop(): Promise<void>;
}

interface ServiceOptions {
  /** A checkout with a build: `dist/main.js`. */
  readonly dir: string;
  readonly heapMib: number;
  readonly transport: string;
  readonly redisUrl?: string | undefined;
}

/** The judged memory, JavaScript's heap and external memory. */
export const heldBytes = ({ heapUsed, external }: Sample): number => heapUsed + external;

const PROBE = new URL('./probe.mjs', import.meta.url);
const READY_MS = 20_000;
const COLLECT_MS = 10_000;
const STOP_MS = 5_000;
const KEPT_OUTPUT_CHARS = 10_000;

/** Starts the built service with a small heap, on free ports of 127.0.0.1. It ends with this process. */
export async function startService(attack: Attack, options: ServiceOptions): Promise<Service> {
  const folder = mkdtempSync(join(tmpdir(), 'attack-'));
  const rulesPath = join(folder, 'rules.yaml');
  writeFileSync(rulesPath, attack.rules ?? defaultRules);
  const ports = { grpc: await freePort(), http: await freePort(), debug: await freePort(), sites: await freePort() };
  const limit = attack.openFiles === undefined ? '' : `ulimit -n ${attack.openFiles} && `;
  const child = spawn(
    'sh',
    [
      ...['-c', `${limit}exec "$0" "$@"`, process.execPath],
      ...[`--max-old-space-size=${options.heapMib}`, '--expose-gc', '--import', PROBE.href],
      ...[join(options.dir, 'dist/main.js'), 'serve'],
    ],
    { env: environment(attack, options, { ports, rulesPath, folder }), stdio: ['ignore', 'pipe', 'pipe', 'pipe'] },
  );
  const samples: Sample[] = [];
  const state: { end: string | undefined; output: string; onCollected: (sample?: Sample) => void } = {
    end: undefined,
    output: '',
    onCollected: () => {},
  };
  const channel = child.stdio[3] as Socket; // a pipe, which Node opens as a socket
  channel.on('error', () => {}); // the process has ended
  const lines = createInterface({ input: channel }).on('error', () => {});
  lines.on('line', (line) => {
    const { kind, atMs, sample: figures } = JSON.parse(line) as Line;
    const sample = { ...figures, atMs };
    if (kind === 'collected') state.onCollected(sample);
    else samples.push(sample);
  });
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (text) => {
      state.output = (state.output + text).slice(-KEPT_OUTPUT_CHARS);
    });
  child.once('exit', (code, signal) => {
    const lines = state.output.trim().split('\n');
    state.end = `${signal ?? `exit code ${code}`}: ${lines.find((line) => line.startsWith('FATAL')) ?? lines.at(-1)}`;
    state.onCollected();
  });
  await untilReady(state, ports.grpc);
  return {
    ports,
    rulesPath,
    samples,
    get end() {
      return state.end;
    },
    collect: () =>
      new Promise((resolve) => {
        const timer = setTimeout(() => resolve(undefined), COLLECT_MS);
        state.onCollected = (sample) => {
          clearTimeout(timer);
          resolve(sample);
        };
        if (state.end === undefined) channel.write('collect\n');
        else state.onCollected();
      }),
    resetStall: () => void channel.write('reset\n'),
    async stop() {
      await end(child, state);
      rmSync(folder, { recursive: true });
    },
  };
}

function environment(
  { env, tls, hasSites }: Attack,
  { transport, redisUrl }: ServiceOptions,
  { ports, rulesPath, folder }: { readonly ports: Ports; readonly rulesPath: string; readonly folder: string },
): NodeJS.ProcessEnv {
  const { PATH, HOME } = process.env;
  return {
    PATH,
    HOME,
    HOST: '127.0.0.1',
    GRPC_HOST: '127.0.0.1',
    DEBUG_HOST: '127.0.0.1',
    GRPC_PORT: `${ports.grpc}`,
    PORT: `${ports.http}`,
    DEBUG_PORT: `${ports.debug}`,
    GRPC_TRANSPORT: transport,
    RULES_PATH: rulesPath,
    DISABLE_STATS: 'true',
    ...(redisUrl !== undefined && { REDIS_URL: redisUrl }),
    ...(tls && certificateFiles(folder)),
    ...(hasSites && { SITE: 'here', SITE_PEERS: `there=127.0.0.1:9`, SITE_PORT: `${ports.sites}` }),
    ...env,
  };
}

function certificateFiles(folder: string): NodeJS.ProcessEnv {
  const { cert, key } = writeCertificate(folder, 'server', createAuthority().issue('localhost'));
  return { GRPC_SERVER_USE_TLS: 'true', GRPC_SERVER_TLS_CERT: cert, GRPC_SERVER_TLS_KEY: key };
}

async function untilReady(state: { readonly end: string | undefined; readonly output: string }, port: number) {
  const isReady = async (): Promise<boolean> => {
    if (state.end !== undefined) throw new Error(`the service has ended: ${state.end}`);
    return state.output.includes('  gRPC ') && accepts(port);
  };
  await eventually(isReady, () => `the service must be ready, its output is ${state.output}`, READY_MS);
}

/** Ends the process, with SIGKILL if its event loop is stuck and SIGTERM has no effect. */
async function end(child: ChildProcess, state: { readonly end: string | undefined }): Promise<void> {
  child.kill('SIGTERM');
  const killer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  await until('the end of the service', () => state.end !== undefined);
  clearTimeout(killer);
}

export const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
