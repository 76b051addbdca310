import { integer, partOfAll, text } from './kinds.ts';
import { type Rows, secret, setting } from './row.ts';

/** Rules that are tried on live traffic. */
export const candidateRows = {
  CANDIDATE_RULES_PATH: setting(
    text,
    '',
    'rule file or directory to try beside the rules in force (docs/candidate.md); empty: an operator loads the candidate through the admin API',
  ),
  CANDIDATE_SAMPLE: setting(
    partOfAll,
    '1',
    'fraction of the counters whose requests are tried; every process samples the same counters',
  ),
  CANDIDATE_MAX_IN_FLIGHT: setting(
    integer(1, 1_000_000, 'a count'),
    '4096',
    'maximum number of requests of a process that are being tried or queued for it; further ones are dropped and counted',
  ),
  CANDIDATE_REDIS_URL: secret(
    text,
    "Redis for the candidate's counters, in the format of REDIS_URL with REDIS_TYPE=SINGLE; unset: the Redis of REDIS_URL, through a separate connection",
  ),
} as const satisfies Rows;
