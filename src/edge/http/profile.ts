import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { Session } from 'node:inspector/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Page, plain, type Route } from './server.ts';

/** Limit and default for the length of a profile, in seconds. */
const MAX_SECONDS = 60;
const DEFAULT_SECONDS = 30;

/** Takes a profile of this process from now until `end` resolves. */
type Profiler = (session: Session, end: Promise<void>) => Promise<object>;

/**
 * The routes that take profiles. They require `Authorization: Bearer <token>`, else 401, and take one profile at a
 * time, else 409.
 *
 * @param secrets  tokens that grant access; if there are none, there are no such routes
 * @see https://www.rfc-editor.org/rfc/rfc6750
 */
export function profileRoutes(secrets: readonly string[]): ReadonlyMap<string, Route> {
  if (secrets.length === 0) return new Map();
  let isTaking = false;
  const route = (what: string, ending: string, take: Profiler): Route => ({
    help: `${what} over ?seconds=${DEFAULT_SECONDS}, for DevTools; requires Authorization: Bearer <ADMIN_TOKEN>`,
    async answer(request) {
      if (!isAuthorized(request, secrets)) return unauthorized;
      if (isTaking) return plain(409, 'another profile is in progress, try again later\n');
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
    ['/debug/pprof/heap', route('allocations that are still in use', 'heapprofile', takeHeapProfile)],
    ['/debug/pprof/profile', route('CPU profile', 'cpuprofile', takeCpuProfile)],
  ]);
}

/** Compares digests in constant time, so that neither length nor timing reveals a token. */
function isAuthorized({ headers }: IncomingMessage, secrets: readonly string[]): boolean {
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

/**
 * Ends early if the connection closes, so that a closing server does not wait for a profile that cannot be delivered.
 */
async function profile(take: Profiler, seconds: number, { socket }: IncomingMessage): Promise<object> {
  const ending = new AbortController();
  const abort = (): void => ending.abort();
  socket.once('close', abort);
  const end = sleep(seconds * 1_000, undefined, { signal: ending.signal }).catch(() => {}); // ends early
  const session = new Session();
  session.connect();
  try {
    return await take(session, end);
  } finally {
    session.disconnect();
    socket.off('close', abort);
    abort();
  }
}

const takeCpuProfile: Profiler = async (session, end) => {
  await session.post('Profiler.enable');
  await session.post('Profiler.start');
  await end;
  return (await session.post('Profiler.stop')).profile;
};

/** Samples allocations: cheap, unlike a heap snapshot, which would block the process. */
const takeHeapProfile: Profiler = async (session, end) => {
  await session.post('HeapProfiler.startSampling');
  await end;
  return (await session.post('HeapProfiler.stopSampling')).profile;
};
