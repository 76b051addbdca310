import { answerJson, badRequest, type JsonOverload } from '../../edge/http/api.ts';
import { CallerDisconnected, type HttpRequest } from '../../edge/http/request.ts';
import { json, type Page, type Route } from '../../edge/http/server.ts';
import { hostedCost } from '../../edge/rls/cost.ts';
import type { Outcome } from '../../edge/rls/service.ts';
import { fromBody, message, optional, request } from '../../edge/wire/json.ts';
import type { JsonReader } from '../../edge/wire/json-reader.ts';
import type { WireDuration, WireRequest } from '../../edge/wire/wire.ts';
import type { AnyHoldAnswer, HoldsService } from './service.ts';
import type { HoldAnswerJson } from './shapes.ts';

const methods = ['acquire', 'renew', 'release', 'reserve', 'commit'] as const;

/** The methods of `weir.v1.Holds`, as JSON. */
export const holdPages = (holds: HoldsService, overload: JsonOverload): ReadonlyMap<string, Route> =>
  new Map(
    methods.map((method) => {
      const answer: Route['answer'] = (request) =>
        answerJson(request, overload, (body, reply) => run(holds[method], body, { request, reply }), toPage);
      const help = `${method} of weir.v1.Holds as JSON; 429 without a slot or a reservation`;
      return [`/holds/${method}`, { help, answer }];
    }),
  );

interface Asked {
  readonly request: HttpRequest;
  readonly reply: (outcome: Outcome<object>) => void;
}

/** @returns units of work */
function run(call: HoldsService[(typeof methods)[number]], body: Buffer, { request, reply }: Asked): number {
  const decoded = holdFromJson(body);
  const { bytes, units } = hostedCost(decoded, body.length);
  request.charge(bytes);
  if (request.socket.destroyed) throw new CallerDisconnected('the connection was reset'); // by the charge above
  const caller = {
    timeLeftMs: () => Number.POSITIVE_INFINITY, // no deadline
    onGone: (listener: () => void) => request.onGone(listener),
  };
  void call(decoded, caller).then(reply);
  return units;
}

function toPage(outcome: Outcome<object>): Page {
  if ('error' in outcome) return badRequest(outcome.error.details, outcome.error.code);
  const answer = holdAnswerToJson(outcome.response);
  return json(answer.held === false || answer.reserved === false ? 429 : 200, answer);
}

function duration(from: JsonReader): WireDuration {
  const { position } = from;
  const [, seconds = '', fraction = ''] = /^(\d{1,9})(?:\.(\d{1,9}))?s$/.exec(from.shortString() ?? '') ?? [];
  if (seconds === '') return from.mismatch('a duration such as "1.5s"', position);
  return { seconds: Number(seconds), nanos: Number(fraction.padEnd(9, '0')) };
}

/**
 * Reads a request as strictly as `requestFromJson`; only `acquire` uses `max_delay`.
 *
 * @throws InvalidJson
 */
export const holdFromJson = fromBody(
  message<{ request: WireRequest | null; max_delay: WireDuration | null }>({
    request: optional(request),
    max_delay: optional(duration),
  }),
);

/** Converts an answer to JSON: durations as in proto3's mapping, numbers as numbers. */
export function holdAnswerToJson(answer: object): HoldAnswerJson {
  const { ttl, retry_after, outcome, ...rest } = answer as Partial<AnyHoldAnswer>; // one of these
  const isGranted = rest.held !== false && rest.reserved !== false;
  return {
    ...rest,
    ...(ttl && isGranted && { ttl: durationText(ttl) }),
    ...(retry_after && { retryAfter: durationText(retry_after) }),
    ...(outcome !== undefined && { outcome: outcomeNames[outcome] ?? 'UNKNOWN' }),
  };
}

const outcomeNames = [undefined, 'COMMITTED', 'LATE', 'UNKNOWN', 'REPEATED'] as const;

const durationText = ({ seconds, nanos }: WireDuration): string =>
  nanos === 0 ? `${seconds}s` : `${seconds + nanos / 1e9}s`;
