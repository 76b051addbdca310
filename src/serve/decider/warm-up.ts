import { connect } from 'node:net';
import type { GrpcServerOptions } from '../../edge/grpc/grpc-server.ts';
import type { RlsService } from '../../edge/rls/service.ts';
import { within } from '../../engine/backends/within.ts';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import { RulesInForce } from '../../engine/rules/reload/in-force.ts';
import { Flag, FRAME_HEADER_BYTES, FrameType, PREFACE } from '../../h2/http2/frames.ts';
import { encodeFields } from '../../h2/http2/hpack/encode.ts';
import type { GrpcServer } from '../../h2/server.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import { startGrpcServer } from './transport.ts';

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
/** Counted for a second, so that the store forgets the counters soon. */
const some = { unit: 'second', requests_per_unit: 200 };
const few = { unit: 'second', requests_per_unit: 2 };
/** The depth of each rule, and the rule. */
const SCRATCH_RULES = [
  [0, { key: 'caller', rate_limit: some }],
  [0, { key: 'one', rate_limit: few }],
  [0, { key: 'path' }],
  [1, { key: 'from', rate_limit: some }],
] as const;

/** The rules of the requests that `warmUp` sends. */
export function scratchRules(): RuleTree {
  const pieces = [JSON.stringify([[''], SCRATCH_RULES.map(([depth, rule]) => [depth, rule, 0, null])])];
  return new RulesInForce().replaceAtOnce([{ name: DOMAIN, spend: undefined, hash: '', pieces }]);
}

/** What answers the calls, by `scratchRules`, except for observers that callers' requests alone may reach. */
interface Warmed extends Pick<GrpcServerOptions, 'overload' | 'health' | 'onCallFinished'> {
  /** Several, since V8 compiles code that has seen one for that one alone; so it is with the requests. */
  readonly services: readonly RlsService[];
}

/**
 * Makes the process warm before its ports open: sends requests over sockets to what will answer callers. Otherwise the
 * first callers would wait while V8 interprets and compiles, longer than proxies do. A failure only leaves the process
 * colder.
 */
export async function warmUp(
  transport: Settings['grpc']['transport'],
  { services, onCallFinished, ...handlers }: Warmed,
  { clock }: ProcessContext,
): Promise<void> {
  const round: Round = { left: 0, end: () => {} };
  const address = { host: HOST, port: 0, exclusive: true }; // of this process, not of all workers
  const open = (service: RlsService): Promise<GrpcServer> =>
    startGrpcServer(transport, {
      address,
      clock,
      service,
      ...handlers,
      onCallFinished(...call) {
        onCallFinished?.(...call);
        if (--round.left === 0) round.end();
      },
    });
  const servers = await Promise.all(services.map(open)).catch(() => []);
  const ports = servers.map(({ target }) => Number(target.split(':').at(-1)));
  await within(MAX_MS, sendRounds(ports, round));
  await Promise.all(servers.map((server) => server.close(GRACE_MS)));
}

/** Calls that are not answered yet. */
interface Round {
  left: number;
  end: () => void;
}

/** Sends calls in rounds, each over a new connection, after the answers to the round before. */
async function sendRounds(ports: readonly number[], round: Round): Promise<void> {
  const bursts = ROUNDS.map(burst);
  for (let sent = 0, at = 0; sent < DECISIONS && ports.length > 0; at++) {
    const socket = connect({ port: ports[at % ports.length] ?? 0, host: HOST, noDelay: true }).resume();
    socket.on('error', () => {}); // `within` ends the wait
    await new Promise<void>((resolve) => {
      [round.left, round.end] = [ROUNDS[at % ROUNDS.length] ?? 0, resolve];
      sent += round.left;
      socket.write(bursts[at % ROUNDS.length] ?? '');
    });
    socket.destroy();
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

/** What a client sends over a new connection for this number of calls: some with one descriptor, as few proxies send. */
function burst(calls: number): Buffer {
  const frames = Array.from({ length: calls }, (_, at) => {
    const message = request(...(at % 2 === 0 ? [[one]] : [[caller], [other], [path], [path, from]]));
    const data = Buffer.concat([Buffer.of(0, 0, 0, 0, message.length), message]);
    const stream = 2 * at + 1;
    return [
      frame(FrameType.HEADERS, Flag.END_HEADERS, stream, HEAD),
      frame(FrameType.DATA, Flag.END_STREAM, stream, data),
    ];
  });
  return Buffer.concat([PREFACE, frame(FrameType.SETTINGS, 0, 0, Buffer.alloc(0)), ...frames.flat()]);
}

const entry = (key: string, value: string): Buffer => field(1, Buffer.concat([field(1, key), field(2, value)]));
const [one, caller, other, path, from] = [
  entry('one', '0'),
  entry('caller', '1'),
  entry('other', '-'),
  entry('path', '/'),
  entry('from', '1'),
];

/** A `RateLimitRequest`. */
const request = (...descriptors: readonly (readonly Buffer[])[]): Buffer =>
  Buffer.concat([field(1, DOMAIN), ...descriptors.map((entries) => field(2, Buffer.concat(entries)))]);

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
