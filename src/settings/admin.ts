import { commaSeparated, flag, integer, text, textNotEmpty } from './kinds.ts';
import { type Rows, secret, setting } from './row.ts';

/** The admin API on the debug port. */
export const adminRows = {
  ADMIN_TOKEN: secret(
    text,
    "tokens for `Authorization: Bearer …`, required for changes, callers' values and profiles on the debug port: one secret, or comma-separated name:role:secret with role read or operate; unset: changes and profiles are disabled, and only local requests get values",
  ),
  ADMIN_HOSTS: setting(
    commaSeparated,
    '',
    'comma-separated host names of the debug port that local requests may use besides localhost and loopback addresses, if ADMIN_TOKEN is not set',
  ),
  AUDIT_LOG: setting(
    text,
    'stderr',
    'destination of the audit log, a line of JSON before each change: stderr, or the path of a file; a change whose line cannot be written is refused',
  ),
  TOP_KEYS_BYTES: setting(
    integer(0, 2 ** 40, 'bytes'),
    '16777216',
    'memory of each process for the most frequent descriptors of each rule (/api/v1/top); 0: disabled',
  ),
  EXPLAIN_SAMPLE: setting(
    integer(0, 10_000, 'refusals'),
    '0',
    'number of the last refusals that each process keeps with their explanation (/api/v1/refusals); 0: none',
  ),
  ADVISE_BYTES: setting(
    integer(0, 2 ** 40, 'bytes'),
    '0',
    'memory for the use of each limit by its keys, which `weir advise --from` evaluates (/api/v1/advice): about 1,000 bytes per key; 0: disabled',
  ),
  HASH_KEYS: setting(
    flag,
    'false',
    "show, record and log callers' values as hashes: on the debug port, in statistics, and in logs",
  ),
  HASH_KEY: secret(textNotEmpty, 'key of these hashes; unset: generated, and shared by all instances on one Redis'),
} as const satisfies Rows;
