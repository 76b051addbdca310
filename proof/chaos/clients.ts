import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js';
import { shouldRateLimit } from '../../src/edge/rls/proto.ts';
import type { WireResponse } from '../../src/edge/wire/wire.ts';
import { fromStruct } from '../../src/protobuf/struct.ts';
import { until } from '../../test/helpers/until.ts';
import { type CallRecord, openCalls } from './log.ts';
import { type ChaosRule, DOMAIN, hasIds, ID_KEY, USED_KEY } from './rules.ts';
import { createDraw, type Draw } from './schedule.ts';

export interface ClientOptions {
  /** The gRPC ports of the instances. */
  readonly ports: readonly number[];
  readonly rules: readonly ChaosRule[];
  /** The folder for the log. */
  readonly folder: string;
  readonly seed: number;
  /** Milliseconds since the epoch, with fractions. */
  readonly nowMs: () => number;
}

/** The number of clients; each has a connection to every instance. */
const CLIENTS = 4;
/** Time between two volleys of a client; it does not wait for answers. */
const EVERY_MS = [5, 40] as const;
/** Calls in a volley: all for one key, each to a random instance. */
const VOLLEY = [1, 4] as const;
const HITS = [1, 2] as const;
/** The hits that a request reserves, and the percentage of them that it uses. */
const RESERVED_HITS = [1, 8] as const;
const USED_PERCENT = [0, 150] as const;
/** One of this many commits is sent twice. */
const REPEATED_ONE_OF = 4;
/** How long a slot or reservation is held before its release; some times exceed its ttl. */
const HELD_MS = [20, 900] as const;
const LONG_MS = [1_000, 2_500] as const;
/** One of this many slots or reservations is held for long, and one is never released, as if its holder had died. */
const ONE_OF = 12;
/** A call without an answer after this time counts as hanging. */
const DEADLINE_MS = 15_000;

/** Runs clients that record every answer. `stop` resolves after the last answer. */
export function startClients(options: ClientOptions): { stop(): Promise<void> } {
  const stopping = new AbortController();
  setMaxListeners(0, stopping.signal); // each hit that is held listens until its release
  const all = Array.from({ length: CLIENTS }, (_, at) => drive(at, options, stopping.signal));
  return {
    async stop() {
      stopping.abort();
      await Promise.all(all);
    },
  };
}

async function drive(client: number, options: ClientOptions, stopping: AbortSignal): Promise<void> {
  const { ports, rules, folder, seed, nowMs } = options;
  const byWeight = rules.flatMap((rule) => Array.from({ length: rule.weight }, () => rule));
  const draw = createDraw(seed * CLIENTS + client);
  const log = openCalls(folder, client);
  const channels = ports.map(openChannel);
  const inFlight = new Set<Promise<unknown>>();
  const follow = (work: Promise<unknown>): void => {
    inFlight.add(work);
    void work.then(() => inFlight.delete(work));
  };
  let number = 0;
  const send = async (asked: SentCall): Promise<string> => {
    const call = { call: `${client}-${number++}`, ...asked, instance: draw.whole(0, ports.length - 1) };
    const channel = channels[call.instance] as Client; // one for each instance
    const sentMs = nowMs();
    const answer = await ask(channel, call);
    log.write({ ...call, sentMs, answeredMs: nowMs(), ...answer });
    return answer.outcome;
  };
  const hold = async (key: string): Promise<void> => {
    const plan = holdPlan(draw);
    const asked = { key, hits: 1, id: `${client}-${number}` };
    const outcome = await send(asked);
    if (outcome !== 'OK' ? !plan.releasesRefused : plan.heldMs === undefined) return;
    if (outcome === 'OK') await sleep(plan.heldMs, undefined, { signal: stopping }).catch(() => {});
    await send({ ...asked, isRelease: true });
  };
  const reserve = async (key: string): Promise<void> => {
    const { heldMs, hits, used, isRepeated } = reservationPlan(draw);
    const asked = { key, hits, id: `${client}-${number}` };
    if ((await send(asked)) !== 'OK' || heldMs === undefined) return;
    await sleep(heldMs, undefined, { signal: stopping }).catch(() => {});
    const commit = () => send({ ...asked, hits: used, isCommit: true });
    await Promise.all([commit(), isRepeated && commit()]);
  };
  const call = ({ key, algorithm }: ChaosRule): Promise<unknown> => {
    if (!hasIds(algorithm)) return send({ key, hits: draw.whole(...HITS) });
    return algorithm === 'in_flight' ? hold(key) : reserve(key);
  };
  while (!stopping.aborted) {
    const rule = draw.pick(byWeight);
    for (let left = draw.whole(...VOLLEY); left > 0; left--) follow(call(rule));
    await sleep(draw.whole(...EVERY_MS));
  }
  await Promise.all(inFlight);
  for (const channel of channels) channel.close();
  await log.close();
}

/** Asks an instance for the hits that the store has counted for a rule, until the store has answered in time. */
export async function countedHits(port: number, { key, limit }: ChaosRule): Promise<number> {
  const channel = openChannel(port);
  const { path, requestSerialize, responseDeserialize } = shouldRateLimit;
  const peek = { entries: [{ key, value: '' }], limit: null, hits_addend: { value: 0 }, is_negative_hits: false };
  const request = { domain: DOMAIN, descriptors: [peek], hits_addend: 0 };
  let counted: WireResponse | undefined;
  try {
    await until(`an answer from the counters of ${key}`, async () => {
      const options = { deadline: Date.now() + DEADLINE_MS };
      const response = await new Promise<WireResponse | undefined>((resolve) => {
        channel.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, options, (_, answer) =>
          resolve(answer),
        );
      });
      counted = response && parseAnswer(response).degraded === undefined ? response : undefined;
      return counted !== undefined;
    });
  } finally {
    channel.close();
  }
  return limit - (counted?.statuses[0]?.limit_remaining ?? limit);
}

/**
 * Plans how long a slot is held and whether it is released. A refused request may be released as well, as Envoy does.
 */
function holdPlan(draw: Draw) {
  const [isLong, isLost] = [draw.whole(1, ONE_OF) === 1, draw.whole(1, ONE_OF) === 1];
  return {
    heldMs: isLost ? undefined : isLong ? draw.whole(...LONG_MS) : draw.whole(...HELD_MS),
    releasesRefused: draw.whole(0, 1) === 1,
  };
}

function reservationPlan(draw: Draw) {
  const hits = draw.whole(...RESERVED_HITS);
  const used = Math.floor((hits * draw.whole(...USED_PERCENT)) / 100);
  return { hits, used, heldMs: holdPlan(draw).heldMs, isRepeated: draw.whole(1, REPEATED_ONE_OF) === 1 };
}

const openChannel = (port: number): Client =>
  new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
    'grpc.enable_retries': 0,
    'grpc.use_local_subchannel_pool': 1,
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.min_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 300,
  });

type SentCall = Pick<CallRecord, 'key' | 'hits' | 'id' | 'isRelease' | 'isCommit'>;
type Answer = Pick<CallRecord, 'outcome' | 'degraded'>;

function ask(client: Client, { key, hits, id, isRelease, isCommit }: SentCall): Promise<Answer> {
  const entries = [
    { key, value: '' },
    ...(id === undefined ? [] : [{ key: ID_KEY, value: id }]),
    ...(isCommit ? [{ key: USED_KEY, value: '' }] : []),
  ];
  const hits_addend = isRelease || isCommit ? { value: hits } : null; // 0 in the request's own field would mean 1
  const request = {
    domain: DOMAIN,
    descriptors: [{ entries, limit: null, hits_addend, is_negative_hits: isRelease ?? false }],
    hits_addend: hits,
  };
  const { path, requestSerialize, responseDeserialize } = shouldRateLimit;
  const options = { deadline: Date.now() + DEADLINE_MS };
  return new Promise((resolve) => {
    client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, options, (error, response) => {
      resolve(response === undefined ? { outcome: statusName(error) } : parseAnswer(response));
    });
  });
}

const statusName = (error: ServiceError | null): string => status[error?.code ?? status.UNKNOWN];

const OVER_LIMIT = 2;

function parseAnswer({ overall_code, dynamic_metadata }: WireResponse): Answer {
  const outcome = overall_code === OVER_LIMIT ? 'OVER_LIMIT' : 'OK';
  if (!dynamic_metadata) return { outcome };
  const metadata = fromStruct(dynamic_metadata) as AnswerMetadata; // written by src/edge/rls/metadata.ts
  const degraded = metadata.weir?.statuses[0]?.degraded;
  return { outcome, ...(degraded !== undefined && { degraded }) };
}

interface AnswerMetadata {
  readonly weir?: { readonly statuses: readonly { readonly degraded?: string }[] };
}
