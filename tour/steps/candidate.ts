import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TourStep } from '../step.ts';

const TRIAL_MS = 8_000;

/** Candidate rules, tried on live traffic without refusing anything. */
export const candidate: TourStep = {
  title: 'A candidate',
  async run({ say, run, rulesPath }) {
    say(
      'Would 5 instead of 10 items a second be enough? A candidate answers live traffic beside the rules in force, and ' +
        'refuses nothing: it only counts what it would have refused.',
    );
    const path = join(rulesPath, '..', 'candidate.yaml');
    await writeFile(path, CANDIDATE);
    await run('candidate', 'load', path, '--reason', 'half as many items?');
    await sleep(TRIAL_MS);
    await run('candidate', '--count', '2');
    say('Its counters begin empty, so it also passes some requests that the rules in force refuse.');
    say('The rules in force have not changed, and no visitor has noticed. The trial ends:');
    await run('candidate', 'clear', '--reason', 'too many refusals');
  },
};

const CANDIDATE = `domain: demo
descriptors:
  - key: path
    value: /items/*
    share_threshold: true
    rate_limit: { unit: second, requests_per_unit: 5, algorithm: token_bucket, burst: 5, on_store_failure: allow }
`;
