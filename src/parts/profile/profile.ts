import type { IncomingMessage } from 'node:http';
import { Session } from 'node:inspector/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { json, type Page, plain, type Route } from '../../edge/http/server.ts';

/** Maximum and default length of a profile, in seconds. */
const MAX_SECONDS = 60;
const DEFAULT_SECONDS = 30;

/** What is profiled, time or live allocations. */
export type ProfileKind = 'cpu' | 'heap';

/**
 * The routes that take profiles. They answer 401 to requests that are not allowed to, and 409 while another profile is
 * taken.
 *
 * @param take  takes a profile, or returns undefined if the process did not reply
 * @see https://www.rfc-editor.org/rfc/rfc6750
 */
export function profileRoutes(
  isAllowed: (request: IncomingMessage) => boolean,
  take: (kind: ProfileKind, seconds: number, end: AbortSignal) => Promise<object | undefined>,
): ReadonlyMap<string, Route> {
  let isTaking = false;
  const route = (what: string, kind: ProfileKind): Route => ({
    help: `${what} over ?seconds=${DEFAULT_SECONDS}, for DevTools; requires Authorization: Bearer <ADMIN_TOKEN>`,
    async answer(request) {
      if (!isAllowed(request)) return unauthorized;
      if (isTaking) return plain(409, 'another profile is in progress: try again later\n');
      const seconds = parseSeconds(request);
      if (seconds === undefined) return plain(400, `seconds must be a whole number from 1 to ${MAX_SECONDS}\n`);
      isTaking = true;
      const end = new AbortController(); // ends the profile if the connection closes
      request.socket.once('close', () => end.abort());
      try {
        const profile = await take(kind, seconds, end.signal);
        if (!profile) return plain(503, 'the process that answers requests did not reply\n');
        return attachment(`weir.${kind}profile`, profile);
      } finally {
        isTaking = false;
      }
    },
  });
  return new Map([
    ['/debug/pprof/heap', route('allocations that are still in use', 'heap')],
    ['/debug/pprof/profile', route('CPU profile', 'cpu')],
  ]);
}

const unauthorized: Page = {
  ...plain(401, 'Unauthorized\n'),
  headers: { 'www-authenticate': 'Bearer realm="weir"' },
};

function parseSeconds({ url = '' }: IncomingMessage): number | undefined {
  const written = new URL(url, 'http://weir').searchParams.get('seconds') ?? String(DEFAULT_SECONDS);
  const seconds = /^\d+$/.test(written) ? Number(written) : Number.NaN;
  return seconds >= 1 && seconds <= MAX_SECONDS ? seconds : undefined;
}

const attachment = (name: string, body: object): Page => ({
  ...json(200, body),
  headers: { 'content-disposition': `attachment; filename="${name}"` },
});

/** Takes a profile of this process. @param end  ends it early */
export async function takeProfile(kind: ProfileKind, seconds: number, end: AbortSignal): Promise<object> {
  const session = new Session();
  session.connect();
  try {
    return await (kind === 'cpu' ? takeCpuProfile : takeHeapProfile)(session, pause(seconds, end));
  } finally {
    session.disconnect();
  }
}

const pause = (seconds: number, signal: AbortSignal): Promise<void> =>
  sleep(seconds * 1_000, undefined, { ref: false, signal }).catch(() => {}); // an abort ends it early

async function takeCpuProfile(session: Session, end: Promise<void>): Promise<object> {
  await session.post('Profiler.enable');
  await session.post('Profiler.start');
  await end;
  return (await session.post('Profiler.stop')).profile;
}

/** Samples allocations, since a heap snapshot would block the process. */
async function takeHeapProfile(session: Session, end: Promise<void>): Promise<object> {
  await session.post('HeapProfiler.startSampling');
  await end;
  return (await session.post('HeapProfiler.stopSampling')).profile;
}
