/** What ioredis says of its own workings, by how it begins, and what it means. */
const meanings = {
  'Reached the max retries per request limit': 'the connection was lost before the reply',
  "Stream isn't writeable": 'not connected',
  'Connection is closed': 'not connected',
  "Cluster isn't ready": 'not connected',
  'Too many Cluster redirections': 'the slot is moving to another node',
} as const;

/** What Redis 7 adds to its refusal of a command in a script: where that stands. */
const PLACE_IN_SCRIPT = / script: [0-9a-f]{40}, on @\S+$/;

/** What Redis 6 puts before it: `ERR Error running script (call to f_…): @user_script:260: @user_script: 260: -READONLY …`. */
const SCRIPT_FAILED = /^ERR Error running script \(call to f_[0-9a-f]{40}\): (?:@\S+?: ?(?:\d+: ?)?)*-?/;

/** Why a call has failed, for people who know Redis, but neither ioredis nor our script. */
export function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  for (const [beginning, meaning] of Object.entries(meanings)) if (message.startsWith(beginning)) return meaning;
  return message.replace(PLACE_IN_SCRIPT, '').replace(SCRIPT_FAILED, '').trim();
}

/** Whether the server is a replica: another one has become the master. */
export const isReadOnly = (error: unknown): boolean => reasonOf(error).startsWith('READONLY');
