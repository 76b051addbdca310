import { flag, integer, partOfAll, text, textNotEmpty } from './kinds.ts';
import { type Rows, secret, setting } from './row.ts';

/** Recording of requests for `weir replay`. */
export const recordRows = {
  RECORD_TO: setting(
    text,
    '',
    'directory for recordings of requests and their answers, for `weir replay`: compressed files of JSON lines; empty: nothing is recorded',
  ),
  RECORD_FROM_START: setting(flag, 'true', 'start recording at start-up; false: when `weir record` is called'),
  RECORD_SAMPLE: setting(
    partOfAll,
    '1',
    'fraction of the counters whose requests are recorded; every process samples the same counters',
  ),
  RECORD_MAX_PER_SECOND: setting(
    integer(1, 2 ** 31 - 1, 'a count'),
    '20000',
    'maximum number of recorded requests per second, divided equally among WORKERS. Others are counted in weir_requests_not_recorded_total',
  ),
  RECORD_MAX_BYTES: setting(
    integer(2 ** 20, 2 ** 50, 'bytes'),
    '1073741824',
    'size of all recordings in the directory; the oldest files are removed to stay below it',
  ),
  RECORD_HASH_KEY: secret(
    textNotEmpty,
    'key to hash recorded values that no rule names, literally or by a pattern; unset: all values are recorded unchanged',
  ),
} as const satisfies Rows;
