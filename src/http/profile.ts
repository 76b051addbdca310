import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { Session } from 'node:inspector/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Page, plain, type Route } from './server.ts';

/** For how long a profile may be taken, and is where nobody says, in seconds. */
const MAX_SECONDS = 60;
const DEFAULT_SECONDS = 30;

/** Takes a profile of this process from now until `enough`. */
type Profiler = (session: Session, enough: Promise<void>) => Promise<object>;

/**
 * The routes that take profiles, for who has the token: `Authorization: Bearer <token>`, else 401. One profile at a time, else 409.
 *
 * @param secrets  of those who may; where there are none, there are no such routes
 * @see https://www.rfc-editor.org/rfc/rfc6750
 */
export function profileRoutes(secrets: readonly string[]): ReadonlyMap<string, Route> {
  if (secrets.length === 0) return new Map();
  let isTaking = false;
  const route = (what: string, ending: string, take: Profiler): Route => ({
    help: `${what} over ?seconds=${DEFAULT_SECONDS}, for DevTools; wants Authorization: Bearer <ADMIN_TOKEN>`,
    async answer(request) {
      if (!mayEnter(request, secrets)) return unauthorized;
      if (isTaking) return plain(409, 'a profile is being taken: try again when it is done\n');
      const seconds = secondsOf(request);
      if (seconds === undefined) return plain(400, `seconds must be a whole number from 1 to ${MAX_SECONDS}\n`);
      isTaking = true;
      try {
        return attachment(`weir.${ending}`, await profile(take, seconds, request));
      } finally {
        isTaking = false;
      }
    },
  });
  return new Map([
    ['/debug/pprof/heap', route('what was allocated and is in use still', 'heapprofile', takeHeapProfile)],
    ['/debug/pprof/profile', route('where CPU time goes', 'cpuprofile', takeCpuProfile)],
  ]);
}

/** Compares digests: their length, and the time it takes, tell nothing about the token. */
function mayEnter({ headers }: IncomingMessage, secrets: readonly string[]): boolean {
  const [, token = ''] = /^Bearer +(.*)$/i.exec(headers.authorization ?? '') ?? [];
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return secrets.filter((secret) => timingSafeEqual(digest(token), digest(secret))).length > 0;
}

const unauthorized: Page = {
  ...plain(401, 'Unauthorized\n'),
  headers: { 'www-authenticate': 'Bearer realm="weir"' },
};

function secondsOf({ url = '' }: IncomingMessage): number | undefined {
  const written = new URL(url, 'http://weir').searchParams.get('seconds') ?? String(DEFAULT_SECONDS);
  const seconds = /^\d+$/.test(written) ? Number(written) : Number.NaN;
  return seconds >= 1 && seconds <= MAX_SECONDS ? seconds : undefined;
}

const attachment = (name: string, body: object): Page => ({
  status: 200,
  contentType: 'application/json',
  body: JSON.stringify(body),
  headers: { 'content-disposition': `attachment; filename="${name}"` },
});

/** Ends early where the connection does: nobody would get the profile, and a server that closes waits for none. */
async function profile(take: Profiler, seconds: number, { socket }: IncomingMessage): Promise<object> {
  const ending = new AbortController();
  const end = (): void => ending.abort();
  socket.once('close', end);
  const enough = sleep(seconds * 1_000, undefined, { signal: ending.signal }).catch(() => {}); // early is enough as well
  const session = new Session();
  session.connect();
  try {
    return await take(session, enough);
  } finally {
    session.disconnect();
    socket.off('close', end);
    end();
  }
}

const takeCpuProfile: Profiler = async (session, enough) => {
  await session.post('Profiler.enable');
  await session.post('Profiler.start');
  await enough;
  return (await session.post('Profiler.stop')).profile;
};

/** Samples allocations, which costs little, unlike a snapshot of the heap, for which the process would stand still. */
const takeHeapProfile: Profiler = async (session, enough) => {
  await session.post('HeapProfiler.startSampling');
  await enough;
  return (await session.post('HeapProfiler.stopSampling')).profile;
};
