import { StoreUnavailable } from '../../engine/backends/backend.ts';
import { within } from '../../engine/backends/within.ts';

/** ioredis's own messages by their beginning, and their meaning. */
const meanings = {
  'Reached the max retries per request limit': 'the connection was lost before the reply',
  "Stream isn't writeable": 'not connected',
  'Connection is closed': 'not connected',
  "Cluster isn't ready": 'not connected',
  'Too many Cluster redirections': 'the slot is moving to another node',
  'ASK ': 'the slot is moving to another node',
  'Offset is outside the bounds of the DataView': 'the reply is shorter than the script’s',
} as const;

/** ioredis' errors of commands that it has not written to a socket. */
const UNSENT = ["Stream isn't writeable", "Cluster isn't ready", 'Failed to refresh slots cache'] as const;

/** Whether the command was certainly not sent. */
export const isUnsent = (error: unknown): boolean =>
  error instanceof Error && UNSENT.some((beginning) => error.message.startsWith(beginning));

/** Whether Redis replied with an error, and so has not run the command. */
export const isReply = (error: unknown): error is Error => error instanceof Error && error.name === 'ReplyError';

/** Appended by Redis 7 to errors of commands in a script: the position in the script. */
const PLACE_IN_SCRIPT = / script: [0-9a-f]{40}, on @\S+$/;

/** Prepended by Redis 6: `ERR Error running script (call to f_…): @user_script:260: @user_script: 260: -READONLY …`. */
const SCRIPT_FAILED = /^ERR Error running script \(call to f_[0-9a-f]{40}\): (?:@\S+?: ?(?:\d+: ?)?)*-?/;

/** Appended to errors of unknown commands: keys, which callers have named, and values. */
const ARGUMENTS = /, with args beginning with: .*$/s;

/** Prepended by ioredis to the error of the last sentinel. */
const NO_SENTINEL = /^All sentinels are unreachable\b.*? Last error: /;

/** A reply to a client that uses a server with slots, such as a node of a Cluster, as a single server. */
const OF_CLUSTER = /^(MOVED|CROSSSLOT) /;
const ofCluster = {
  MOVED: 'CLUSTER nodes only have the keys of their slots: REDIS_TYPE must be CLUSTER',
  CROSSSLOT: 'CROSSSLOT: scripts only have the keys of one slot, unless REDIS_TYPE is CLUSTER',
} as const;

/** Why a call failed, in terms of Redis, without ioredis or the script. */
export function describeError(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  if (message === NO_SLOTS) return slotsReason(error);
  for (const [beginning, meaning] of Object.entries(meanings)) if (message.startsWith(beginning)) return meaning;
  const [, slots] = OF_CLUSTER.exec(message) ?? [];
  if (slots) return ofCluster[slots as keyof typeof ofCluster];
  return message
    .replace(PLACE_IN_SCRIPT, '')
    .replace(SCRIPT_FAILED, '')
    .replace(ARGUMENTS, '')
    .replace(NO_SENTINEL, 'no sentinel names the master: ')
    .trim();
}

/** The error of a Cluster if no node could be queried for the slots. */
const NO_SLOTS = 'Failed to refresh slots cache.';

function slotsReason(error: unknown): string {
  const { lastNodeError } = error as { readonly lastNodeError?: unknown }; // of ioredis, together with this message
  return `no node reports its slots${lastNodeError ? `: ${describeError(lastNodeError)}` : ''}`;
}

/** Whether the server is a replica, for example after a failover. */
export const isReadOnly = (error: unknown): boolean => describeError(error).startsWith('READONLY');

/** The timeout of calls for which no decision waits. */
const TIMEOUT_MS = 1_000;

/**
 * The reply to an operator's command.
 *
 * @throws StoreUnavailable  no reply in time: a command that was sent may still be executed later
 */
export async function answered<T>(reply: Promise<T>): Promise<T> {
  const outcome = await within(TIMEOUT_MS, reply);
  if ('value' in outcome) return outcome.value;
  throw new StoreUnavailable(`redis: ${describeError(outcome.reason)}`);
}
