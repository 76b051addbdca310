import { connect } from 'node:net';
import type { GrpcServerOptions } from '../../edge/grpc/grpc-server.ts';
import { transports } from '../../edge/grpc/transports.ts';
import { within } from '../../engine/backends/within.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { RulesInForce } from '../../engine/rules/reload/in-force.ts';
import { Flag, FRAME_HEADER_BYTES, FrameType, PREFACE } from '../../h2/http2/frames.ts';
import { encodeFields } from '../../h2/http2/hpack/encode.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ProcessContext } from '../parts/process-context.ts';

/** Decisions after which V8 has compiled what most requests run. */
const DECISIONS = 5_000;
/** Calls that are sent at once, in turn: a lone one, and bursts of a proxy. */
const ROUNDS = [1, 8, 64];
/** Maximum time, since a start must not wait for a slow store, or for a processor that others use. */
const MAX_MS = 2_000;
/** The last calls wait for the store for a second at most. */
const GRACE_MS = 1_100;

const HOST = '127.0.0.1';
const DOMAIN = 'weir warm-up';
/** Counted for a second, so that the store forgets the counters soon. Some callers pass; the other key is a burst. */
const SCRATCH_RULES = [
  { key: 'caller', rate_limit: { unit: 'second', requests_per_unit: 200 } },
  { key: 'one', rate_limit: { unit: 'second', requests_per_unit: 2 } },
];

/** The rules of the requests that `warmUp` sends. */
export function scratchRules(): RuleTree {
  const pieces = [JSON.stringify([[''], SCRATCH_RULES.map((rule) => [0, rule, 0, null])])];
  return new RulesInForce().replaceAtOnce([{ name: DOMAIN, spend: undefined, hash: '', pieces }]);
}

/** What answers the calls, by `scratchRules`, except for observers that callers' requests alone may reach. */
type Warmed = Pick<GrpcServerOptions, 'service' | 'overload' | 'health' | 'onCallFinished'>;

/**
 * Makes the process warm before its ports open: sends requests over sockets to what will answer callers. Otherwise the
 * first callers would wait while V8 interprets and compiles, longer than proxies do. A failure only leaves the process
 * colder.
 */
export async function warmUp(
  transport: Settings['grpc']['transport'],
  { onCallFinished, ...handlers }: Warmed,
  { clock }: ProcessContext,
): Promise<void> {
  const round: Round = { left: 0, end: () => {} };
  const address = { host: HOST, port: 0, exclusive: true }; // of this process, not of all workers
  const server = await transports[transport]({
    address,
    clock,
    ...handlers,
    onCallFinished(...call) {
      onCallFinished?.(...call);
      if (--round.left === 0) round.end();
    },
  }).catch(() => undefined);
  if (!server) return;
  await within(MAX_MS, sendRounds(Number(server.target.split(':').at(-1)), round));
  await server.close(GRACE_MS);
}

/** Calls that are not answered yet. */
interface Round {
  left: number;
  end: () => void;
}

/** Sends calls in rounds, each over a new connection, after the answers to the round before. */
async function sendRounds(port: number, round: Round): Promise<void> {
  const bursts = ROUNDS.map(burst);
  for (let sent = 0, at = 0; sent < DECISIONS; at++) {
    const calls = ROUNDS[at % ROUNDS.length] ?? 1;
    const socket = connect({ port, host: HOST, noDelay: true }).resume();
    socket.on('error', () => {}); // `within` ends the wait
    await new Promise<void>((resolve) => {
      [round.left, round.end] = [calls, resolve];
      socket.write(bursts[at % ROUNDS.length] ?? '');
    });
    socket.destroy();
    sent += calls;
  }
}

const HEAD = encodeFields([
  [':method', 'POST'],
  [':scheme', 'http'],
  [':path', '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'],
  [':authority', 'weir'],
  ['te', 'trailers'],
  ['grpc-timeout', '9S'],
  ['content-type', 'application/grpc'],
]);

/** What a client sends over a new connection for this number of calls: every fourth is of one caller. */
function burst(calls: number): Buffer {
  const frames = Array.from({ length: calls }, (_, at) => {
    const message = at % 4 === 0 ? request('one', '0') : request('caller', String(at % 4));
    const prefix = Buffer.of(0, 0, 0, 0, message.length);
    return [
      frame(FrameType.HEADERS, Flag.END_HEADERS, 2 * at + 1, HEAD),
      frame(FrameType.DATA, Flag.END_STREAM, 2 * at + 1, Buffer.concat([prefix, message])),
    ];
  });
  return Buffer.concat([PREFACE, frame(FrameType.SETTINGS, 0, 0, Buffer.alloc(0)), ...frames.flat()]);
}

/** A `RateLimitRequest`. */
const request = (key: string, value: string): Buffer =>
  Buffer.concat([field(1, DOMAIN), field(2, field(1, Buffer.concat([field(1, key), field(2, value)])))]);

/** A text or message of at most 127 octets as a field of another message. */
function field(number: number, content: string | Buffer): Buffer {
  const bytes = Buffer.from(content as string); // or a Buffer, which is copied
  return Buffer.concat([Buffer.of((number << 3) | 2, bytes.length), bytes]);
}

function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(FRAME_HEADER_BYTES);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}
