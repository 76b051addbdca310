import { commaSeparated, flag, integer, text } from './kinds.ts';
import { type Rows, secret, setting } from './row.ts';

/** What operators may see and change on the debug port. */
export const adminRows = {
  ADMIN_TOKEN: secret(
    text,
    "what `Authorization: Bearer …` must say for changes, callers' values and profiles on the debug port: one secret, or several as name:role:secret with commas between, role read or operate; unset: changes and profiles are off, and values are shown to this machine only",
  ),
  ADMIN_HOSTS: setting(
    commaSeparated,
    '',
    'hosts, with commas between them, by which this machine may name the debug port besides localhost and loopback addresses, where ADMIN_TOKEN is not set',
  ),
  AUDIT_LOG: setting(
    text,
    'stderr',
    'where a line of JSON is written before each change: stderr, or the path of a file; a change whose line cannot be written is refused',
  ),
  TOP_KEYS_BYTES: setting(
    integer(0, 2 ** 40, 'bytes'),
    '16777216',
    'what each process may take for the most frequent descriptors of each rule (/api/v1/top); 0: none are kept',
  ),
  EXPLAIN_SAMPLE: setting(
    integer(0, 10_000, 'refusals'),
    '0',
    'how many of the last refusals each process keeps with their explanation (/api/v1/refusals); 0: none',
  ),
  HASH_KEYS: setting(flag, 'false', "callers' values are shown as their hash on /api/v1"),
} as const satisfies Rows;
