import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { copyFile, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Envoy, startEnvoy } from '../test/helpers/envoy.ts';
import { type Redis, startRedis } from '../test/helpers/redis.ts';
import { redisOnPath } from '../test/helpers/tools.ts';
import { MAIN, startWeir, type Weir } from '../test/helpers/weir.ts';
import { type Load, startLoad } from './load.ts';
import type { Narrator } from './narrator.ts';

const RULES_NAME = 'rules.yaml';
const RULES = fileURLToPath(new URL(RULES_NAME, import.meta.url));
const REMOVAL_MS = 2_000;

/** The part of an answer that the tour shows. */
export interface TourAnswer {
  readonly status: number;
  /** `x-ratelimit-*` and `retry-after`, a line each; empty without Envoy. */
  readonly headers: readonly string[];
}

/** Everything that runs during the tour. */
export interface Stage extends Narrator {
  readonly weir: Weir;
  /** Undefined: unavailable, and requests go to Weir's `/json`. */
  readonly envoy: Envoy | undefined;
  /** Undefined: unavailable, and counters are in memory. */
  readonly redis: Redis | undefined;
  readonly load: Load;
  /** A copy of the rules, which a step may change. */
  readonly rulesPath: string;
  readonly token: string;
  /** The URL of a path, as the reader would type it. */
  urlOf(path: string): string;
  request(path: string, user?: string): Promise<TourAnswer>;
  /** The command that sends the same request. */
  commandOf(path: string, user?: string): string;
  /** Runs `weir` with the token and the debug port, and shows the command and its output. @returns the output */
  run(...args: readonly string[]): Promise<string>;
}

/**
 * Starts Redis, Weir, Envoy and the load. Reports a part that is unavailable here, and continues without it.
 *
 * @param without  parts that are not started: `redis`, `envoy`
 * @param stops    receives a function to stop each part, to call in reverse order, also if the start fails
 */
export async function openStage(
  narrator: Narrator,
  without: ReadonlySet<string>,
  stops: (() => Promise<unknown>)[],
): Promise<Stage> {
  const folder = await openFolder(stops);
  const rulesPath = join(folder, RULES_NAME);
  await copyFile(RULES, rulesPath);
  const token = randomBytes(8).toString('hex');
  const redis = await orWithout(narrator, ['Redis', 'Counters are in memory instead.'], without, async () => {
    const program = await redisOnPath();
    return program === undefined ? undefined : startRedis({ program });
  });
  if (redis) stops.push(redis.stop);
  const weir = await startWeir(
    { ADMIN_TOKEN: token, USE_STATSD: 'false', STORE_TIMEOUT: '100ms', ...(redis && { REDIS_URL: redis.url }) },
    { args: ['--rules', rulesPath] },
  );
  stops.push(weir.stop);
  const envoy = await orWithout(narrator, ['Envoy', 'Requests go to /json of Weir instead.'], without, () =>
    startEnvoy(weir.grpcPort),
  );
  if (envoy) {
    stops.push(envoy.stop);
    await envoy.waitFor(async () => (await envoy.get('10001', '/')).status === 200); // Envoy has connected to Weir
  }
  const request = envoy ? throughEnvoy(envoy) : overJson(weir);
  const load = startLoad(request);
  stops.push(load.stop);
  const urlOf = (path: string): string =>
    envoy ? `http://localhost:${envoy.portOf('10001')}${path}` : `http://localhost:${weir.httpPort}/json`;
  return {
    ...narrator,
    weir,
    envoy,
    redis,
    load,
    rulesPath,
    token,
    urlOf,
    request,
    commandOf: (path, user) => {
      if (!envoy) return `curl -i ${urlOf(path)} -d '${bodyOf(path, user)}'`;
      return `curl -i${user === undefined ? '' : ` -H 'x-user: ${user}'`} ${urlOf(path)}`;
    },
    run: runner(narrator, weir, token),
  };
}

/** A folder for all temporary files of the tour, including those of the servers. */
async function openFolder(stops: (() => Promise<unknown>)[]): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'weir-tour-'));
  process.env.TMPDIR = folder;
  stops.push(async () => {
    const endMs = Date.now() + REMOVAL_MS; // stopped servers still remove their own folders
    while ((await readdir(folder)).some((name) => !name.endsWith('.yaml')) && Date.now() < endMs) await sleep(10);
    await rm(folder, { recursive: true, force: true });
  });
  return folder;
}

async function orWithout<T>(
  { say }: Narrator,
  [what, instead]: readonly [what: string, instead: string],
  without: ReadonlySet<string>,
  start: () => Promise<T | undefined>,
): Promise<T | undefined> {
  if (without.has(what.toLowerCase())) {
    say(`${what} is not started. ${instead}`);
    return undefined;
  }
  try {
    const started = await start();
    if (started === undefined) say(`${what} is not on PATH. ${instead}`);
    return started;
  } catch (error) {
    const [reason = ''] = String(error instanceof Error ? error.message : error).split('\n');
    say(`${what} could not be started here (${reason}). ${instead}`);
    return undefined;
  }
}

type Request = Stage['request'];

/** Uses port 10001 of envoy.yaml, which refuses requests while Weir is unreachable, so that an outage is visible. */
const throughEnvoy =
  (envoy: Envoy): Request =>
  async (path, user) => {
    const { status, headers } = await envoy.get('10001', path, user);
    const shown = [...headers].filter(([name]) => /^(x-ratelimit-|retry-after$)/.test(name));
    return { status, headers: shown.map(([name, value]) => `${name}: ${value}`) };
  };

const overJson =
  ({ httpPort }: Weir): Request =>
  async (path, user) => {
    const { status } = await fetch(`http://127.0.0.1:${httpPort}/json`, { method: 'POST', body: bodyOf(path, user) });
    return { status, headers: [] };
  };

/** The body for `/json`, with the descriptors that envoy.yaml makes from a request. */
function bodyOf(path: string, user: string | undefined): string {
  const ofUser = user === undefined ? [] : [{ entries: [{ key: 'user', value: user }] }];
  return JSON.stringify({ domain: 'demo', descriptors: [...ofUser, { entries: [{ key: 'path', value: path }] }] });
}

const runner =
  ({ show }: Narrator, { debugPort }: Weir, token: string): Stage['run'] =>
  async (...args) => {
    const command = [...args, '--target', `localhost:${debugPort}`];
    const env = { PATH: process.env.PATH, WEIR_TOKEN: token, NO_COLOR: '1' };
    const { stdout } = await promisify(execFile)(process.execPath, [MAIN, ...command], { env });
    show(`npx weir ${command.map(quoted).join(' ')}`, stdout);
    return stdout;
  };

const quoted = (argument: string): string => (/^[\w=/.:,@-]+$/.test(argument) ? argument : `'${argument}'`);
