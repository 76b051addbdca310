import { integer, partOfAll, text } from './kinds.ts';
import { type Rows, secret, setting } from './row.ts';

/** Rules that are tried on live traffic. */
export const candidateRows = {
  CANDIDATE_RULES_PATH: setting(
    text,
    '',
    'rule file, or directory of them, that is tried beside the rules in force (docs/candidate.md); empty: what an operator loads by the admin API',
  ),
  CANDIDATE_SAMPLE: setting(
    partOfAll,
    '1',
    'part of all counters whose requests are tried; every process samples the same ones',
  ),
  CANDIDATE_MAX_IN_FLIGHT: setting(
    integer(1, 1_000_000, 'a count'),
    '4096',
    'requests of a process that wait to be tried, or are being tried; others are dropped, and counted',
  ),
  CANDIDATE_REDIS_URL: secret(
    text,
    "Redis for the candidate's counters, as REDIS_URL for REDIS_TYPE=SINGLE; unset: that of REDIS_URL, by a connection of their own",
  ),
} as const satisfies Rows;
