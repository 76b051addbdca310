import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { GrpcServerOptions } from '../../edge/grpc/grpc-server.ts';
import { transports } from '../../edge/grpc/transports.ts';
import { within } from '../../engine/backends/within.ts';
import { requestDebits } from '../../engine/decide/plan.ts';
import type { Domain } from '../../engine/rules/match/tree.ts';
import { RulesInForce } from '../../engine/rules/reload/in-force.ts';
import { Flag, FRAME_HEADER_BYTES, FrameType, MAX_WINDOW, PREFACE } from '../../h2/http2/frames.ts';
import { encodeFields } from '../../h2/http2/hpack/encode.ts';
import { ProtoWriter } from '../../protobuf/writer.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import type { DeciderCore } from './core.ts';

/** Decisions after which V8 has compiled what most requests run. */
const DECISIONS = 5_000;
/** Calls that are sent at once, in turn: a lone one, and bursts of a proxy. */
const ROUNDS = [1, 8, 64];
/** Maximum time, since a start must not wait for a slow store, or for a processor that others use. */
const MAX_MS = 2_000;

const DOMAIN = 'weir warm-up';
/** Counted for a second, so that the store forgets the counters soon. Some callers pass. */
const MANY = { key: 'caller', rate_limit: { unit: 'second', requests_per_unit: 200 } };
/** The burst of one caller. */
const ONE = { key: 'one', rate_limit: { unit: 'second', requests_per_unit: 2 } };
const CALLERS = 4;

/** What answers the calls of callers, except for observers that callers' requests alone may reach. */
interface Warmed extends Pick<GrpcServerOptions, 'service' | 'overload' | 'health' | 'onCallFinished'> {
  readonly core: DeciderCore;
}

/**
 * Makes the process warm before its ports open: sends requests of a scratch domain over a socket to what will answer
 * callers. Otherwise the first callers would wait while V8 interprets and compiles, longer than proxies do. What was
 * counted is to be cleared afterwards. A failure only leaves the process colder.
 */
export async function warmUp(
  transport: Settings['grpc']['transport'],
  { core, ...handlers }: Warmed,
  { clock }: ProcessContext,
): Promise<void> {
  // a tree is otherwise not changed; no caller can use this domain, since no port is open
  const domains = core.decider.rules()?.domains as Map<string, Domain> | undefined;
  const domain = scratchDomain();
  if (!domains || !domain) return;
  const address = { host: HOST, port: 0, exclusive: true }; // of this process, not of all workers
  const server = await transports[transport]({ address, clock, ...handlers }).catch(() => undefined);
  if (!server) return;
  domains.set(DOMAIN, domain);
  const socket = connect({ port: Number(server.target.split(':').at(-1)), host: HOST, noDelay: true });
  await within(MAX_MS, sendRounds(socket));
  socket.destroy();
  await server.close(0);
  for (let waits = 0; handlers.overload.inFlight() > 0 && waits < MAX_WAITS; waits++) await sleep(WAIT_MS);
  forget(core);
  domains.delete(DOMAIN);
}

const HOST = '127.0.0.1';
/** The last calls wait for the store for a second at most. */
const WAIT_MS = 10;
const MAX_WAITS = 110;

function scratchDomain(): Domain | undefined {
  const nodes = [MANY, ONE].map((rule) => [0, rule, 0, null]);
  const pieces = [JSON.stringify([[''], nodes])];
  return new RulesInForce().replaceAtOnce([{ name: DOMAIN, spend: undefined, hash: '', pieces }]).domains.get(DOMAIN);
}

/** Forgets what this process remembers of the scratch counters. */
function forget({ decider, store: { ledger } }: DeciderCore): void {
  const debits = Array.from({ length: CALLERS + 1 }, (_, at) => {
    const entries = [{ key: (at < CALLERS ? MANY : ONE).key, value: String(at % CALLERS) }];
    return requestDebits({ domain: DOMAIN, descriptors: [{ entries, hits: 1, requestLimit: undefined }] }, decider);
  }).flat();
  for (const { key } of debits) ledger.forgetLocally(key);
  ledger.refusals?.clear();
  ledger.refusals?.resetCounts();
}

/** Sends calls in rounds, each after the answers to the round before. */
async function sendRounds(socket: Socket): Promise<void> {
  const answers = countAnswers(socket);
  socket.write(Buffer.concat([PREFACE, frame(FrameType.SETTINGS, 0, 0), windowUpdate()]));
  for (let sent = 0, round = 0; sent < DECISIONS; round++) {
    const calls = ROUNDS[round % ROUNDS.length] ?? 1;
    socket.write(Buffer.concat(Array.from({ length: calls }, (_, at) => call(2 * (sent + at) + 1))));
    sent += calls;
    await answers.reach(sent);
  }
}

/** Counts the streams that the server has ended. */
function countAnswers(socket: Socket) {
  let rest: Buffer = Buffer.alloc(0);
  let count = 0;
  let wanted = Number.POSITIVE_INFINITY;
  let resume = (): void => {};
  socket.on('error', () => {}); // `within` ends the wait
  socket.on('data', (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk]);
    let from = 0;
    while (rest.length - from >= FRAME_HEADER_BYTES) {
      const end = from + FRAME_HEADER_BYTES + rest.readUIntBE(from, 3);
      if (end > rest.length) break;
      if (rest[from + 3] === FrameType.HEADERS && ((rest[from + 4] ?? 0) & Flag.END_STREAM) !== 0) count++;
      from = end;
    }
    rest = rest.subarray(from);
    if (count >= wanted) resume();
  });
  return {
    reach: (sum: number) =>
      new Promise<void>((resolve) => {
        [wanted, resume] = [sum, resolve];
        if (count >= wanted) resolve();
      }),
  };
}

const HEAD = encodeFields([
  [':method', 'POST'],
  [':scheme', 'http'],
  [':path', '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'],
  [':authority', 'weir'],
  ['te', 'trailers'],
  ['grpc-timeout', '999m'],
  ['content-type', 'application/grpc'],
]);

function call(stream: number): Buffer {
  const isBurst = stream % 4 === 1;
  const message = isBurst ? request(ONE.key, '0') : request(MANY.key, String((stream >> 2) % CALLERS));
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  const data = Buffer.concat([prefix, message]);
  return Buffer.concat([
    frame(FrameType.HEADERS, Flag.END_HEADERS, stream, HEAD),
    frame(FrameType.DATA, Flag.END_STREAM, stream, data),
  ]);
}

/** A `RateLimitRequest`. */
function request(key: string, value: string): Buffer {
  const writer = new ProtoWriter();
  writer.start(0);
  writer.textField(1, DOMAIN);
  const descriptor = writer.begin(2);
  const entry = writer.begin(1);
  writer.textField(1, key);
  writer.textField(2, value);
  writer.end(entry);
  writer.end(descriptor);
  return writer.bytes.subarray(0, writer.length);
}

function windowUpdate(): Buffer {
  const payload = Buffer.alloc(4);
  payload.writeUInt32BE(MAX_WINDOW >> 1);
  return frame(FrameType.WINDOW_UPDATE, 0, 0, payload);
}

function frame(type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(FRAME_HEADER_BYTES);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}
