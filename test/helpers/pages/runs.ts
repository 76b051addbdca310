import { rulesOf, textOf } from './page.ts';
import type { PageSetup } from './run-page.ts';

/** How the commands of a page are run. */
export interface PageRun extends PageSetup {
  /** Whether the commands must print exactly the output that the page shows, apart from times. */
  readonly isExact?: boolean;
}

const PER_USER = 'domain: demo\ndescriptors:\n  - key: user\n    rate_limit: { unit: minute, requests_per_unit: 5 }\n';
const LOWER = PER_USER.replace(': 5', ': 3');
const ACCESS_LOG = [3, 4, 5]
  .map((second) => ({ start_time: `2026-01-05T10:00:0${second}Z`, 'x-user': 'alice', path: '/', response_code: 200 }))
  .map((line) => `${JSON.stringify(line)}\n`)
  .join('');
const ASK_ALICE = 'npx weir ask demo user=alice';
/** Sends a request of a user and waits until it is in a recording. */
const RECORDED = `${ASK_ALICE} && until zcat /var/lib/weir/recordings/* 2> zcat.log | grep -q alice; do sleep 0.1; done`;

/** Uses up a user's limit through Envoy, early enough in a minute that the next commands still see refusals. */
const REFUSED_ALICE = `until [ "$(date +%S)" -lt 50 ]; do sleep 1; done
  for i in 1 2 3 4 5 6; do curl -s localhost:10000/health -H 'x-user: alice' > answer.txt; done`;

const rules = (path: string): Readonly<Record<string, string>> => ({ 'rules.yaml': rulesOf(textOf(path))[0] ?? '' });

/** The pages whose commands runPage runs, with their setups. */
export const pageRuns: Readonly<Record<string, PageRun>> = {
  'README.md': { isExact: true, before: { 'weir explain': REFUSED_ALICE } },
  'docs/get-started.md': { isExact: true },
  'docs/protect-a-login.md': { isExact: true },
  'docs/plans-and-quotas.md': { isExact: true },
  'docs/change-a-limit.md': {
    isExact: true,
    service: 'ADMIN_TOKEN=secret npx weir serve --rules rules.yaml',
    env: { WEIR_TOKEN: 'secret' },
    before: { 'candidate load': ASK_ALICE },
  },
  'docs/advise.md': {
    service: 'ADVISE_BYTES=50000000 RECORD_TO=/var/lib/weir/recordings npx weir serve --rules rules.yaml',
    before: {
      '--live': `npx weir ask demo path=/login,remote_address=192.0.2.1 &&
        until zcat /var/lib/weir/recordings/* 2> zcat.log | grep -q login; do sleep 0.1; done`,
    },
    files: rules('docs/advise.md'),
  },
  'docs/clients.md': { service: 'npm start' },
  'docs/scaling.md': { service: 'npm start' },
  'docs/in-flight.md': { service: 'npx weir serve --rules rules.yaml', files: rules('docs/in-flight.md') },
  'docs/llm-tokens.md': { service: 'npx weir serve --rules rules.yaml', files: rules('docs/llm-tokens.md') },
  'docs/usage.md': {
    service: 'ADMIN_TOKEN=secret USAGE_DIR=/var/lib/weir/usage npx weir serve --rules rules.yaml',
    env: { WEIR_TOKEN: 'secret' },
    files: { 'rules.yaml': PER_USER },
  },
  'docs/overlay.md': {
    files: {
      'rules/rules.yaml': PER_USER,
      'overlay.yaml': 'domain: demo\ndescriptors:\n  - key: user\n    rate_limit: { algorithm: token_bucket }\n',
    },
  },
  'docs/replay.md': {
    files: { 'access.log': ACCESS_LOG, 'rules.yaml': PER_USER, 'proposed.yaml': LOWER },
    before: { RECORD_TO: RECORDED, zcat: 'zcat recordings/* 2> zcat.log | gzip > traffic.ndjson.gz' },
  },
  'docs/sites.md': { files: rules('docs/sites.md') },
  'docs/penalties.md': {},
};

/** Pages whose commands are run by a separate test. */
export const ownTests: Readonly<Record<string, string>> = {
  'docs/why-refused.md': 'test/e2e/why.long.test.ts',
};
