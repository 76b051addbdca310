import type { Proof } from './proof.ts';

interface Listed {
  /** Summary in one sentence. */
  readonly about: string;
  /** Whether it starts the built service or tests the build. */
  readonly needsBuild?: true;
  load(): Promise<Proof>;
}

/** What `npm run proof` can run, by name. */
export const proofs: ReadonlyMap<string, Listed> = new Map(
  Object.entries({
    bench: {
      about: 'The cost of a decision, compared with other services or another build.',
      needsBuild: true,
      load: () => import('./bench/decisions.ts'),
    },
    attack: {
      about: 'Attacks the service while another client calls it, and checks its bounds.',
      needsBuild: true,
      load: () => import('./attack/run.ts'),
    },
    chaos: {
      about: 'Injects faults into the service and its Redis, and checks the invariants.',
      needsBuild: true,
      load: () => import('./chaos/run.ts'),
    },
    usage: {
      about: 'Kills processes while hits are charged, and compares the reported usage with the counters.',
      needsBuild: true,
      load: () => import('./chaos/usage.ts'),
    },
    soak: {
      about: 'Twenty minutes of calls, reloads, a console, reports, a full disk and a hanging Redis.',
      needsBuild: true,
      load: () => import('./soak/run.ts'),
    },
    'usage-report': {
      about: 'How long a report of a million keys takes, from files and from PostgreSQL.',
      needsBuild: true,
      load: () => import('./bench/usage-report.ts'),
    },
    explore: {
      about: 'Runs the code of each protocol in every order of messages, faults and time, and checks invariants.',
      load: () => import('./explore/run.ts'),
    },
    overload: {
      about: '10 and 100 times the normal load, busy and throttled machines, and floods.',
      needsBuild: true,
      load: () => import('./bench/overload.ts'),
    },
    burst: {
      about: 'What passes in a burst of one user after a start, after silence, and beside busy processes.',
      needsBuild: true,
      load: () => import('./bench/burst.ts'),
    },
    guard: {
      about: 'The cost of packets that weir guard drops, and the time until it does.',
      needsBuild: true,
      load: () => import('./bench/guard.ts'),
    },
    operators: {
      about: 'Latencies of calls while operators reload rules, scrape metrics, explain, and open the console.',
      needsBuild: true,
      load: () => import('./bench/operators.ts'),
    },
    rest: {
      about: 'Start-up time, memory and CPU of an idle service, the cost of connections, and the size of the package.',
      needsBuild: true,
      load: () => import('./bench/rest.ts'),
    },
    faults: {
      about: 'What callers see for each kind of Redis failure.',
      load: () => import('./bench/faults.ts'),
    },
    leases: {
      about: 'The calls to Redis that leases save, and what they leave unused.',
      load: () => import('./bench/leases.ts'),
    },
    quotas: {
      about: 'What 1, 3 and 10 Envoys admit with quotas and without, and the cost of their reports.',
      needsBuild: true,
      load: () => import('./bench/quotas.ts'),
    },
    sites: {
      about: 'The hits admitted for two callers with one Redis, with leases, with quotas, and with two sites.',
      needsBuild: true,
      load: () => import('./bench/sites.ts'),
    },
    scaling: {
      about: 'Computes the machines that a load needs from the measured costs.',
      load: () => import('./bench/scaling.ts'),
    },
    load: {
      about: 'Sends load to a running service.',
      load: () => import('./bench/load.ts'),
    },
    peers: {
      about: 'Builds the services that bench compares Weir with.',
      load: () => import('./bench/peers.ts'),
    },
    patterns: {
      about: 'The cost of searching 1 and 10,000 patterns, and ordinary and hostile values.',
      load: () => import('./bench/patterns.ts'),
    },
    holds: {
      about: 'The cost of slots and reservations, by the number held.',
      load: () => import('./bench/holds.ts'),
    },
    adaptive: {
      about: 'What an adaptive limit serves while the capacity of an upstream changes, compared with others.',
      needsBuild: true,
      load: () => import('./bench/adaptive.ts'),
    },
    'client-overhead': {
      about: 'The cost of a call of weir-client, compared with @grpc/grpc-js.',
      needsBuild: true,
      load: () => import('./bench/client-overhead.ts'),
    },
    'llm-trace': {
      about: 'The refusals and overspending of 100,000 synthetic LLM requests, by what they reserve.',
      load: () => import('./bench/llm-trace.ts'),
    },
    'retry-storm': {
      about: 'The effect of cooperating and other clients on a server that stalls.',
      load: () => import('./bench/retry-storm.ts'),
    },
    'counter-bytes': {
      about: 'The bytes of a counter, in memory and in Redis.',
      load: () => import('./bench/counter-bytes.ts'),
    },
    'rule-files': {
      about: 'The time to load rule files, and whether it is proportional to their size.',
      load: () => import('./bench/rule-files.ts'),
    },
    expiry: {
      about: 'The latency of a hit while a million counters expire.',
      load: () => import('./bench/expiry.ts'),
    },
    advise: {
      about: 'The shares of legitimate and abusive keys that the proposals of weir advise hit.',
      load: () => import('./bench/advise.ts'),
    },
    'fair-shares': {
      about: 'What children of random shared limits get, compared with a fluid model of fairness.',
      load: () => import('./fair-shares/run.ts'),
    },
    accuracy: {
      about: 'How every algorithm decides seeded traffic, compared with an exact log.',
      load: () => import('./accuracy/run.ts'),
    },
    conformance: {
      about: 'What Weir and other servers do of the cases of rls-conformance.',
      needsBuild: true,
      load: () => import('./conformance/run.ts'),
    },
    judge: {
      about:
        'Whether the answers of Weir and envoyproxy/ratelimit, with and without faults, follow from what they declare.',
      needsBuild: true,
      load: () => import('./judge/run.ts'),
    },
    llm: {
      about:
        'What calls to language models are charged behind a real Envoy, while clients, upstreams and processes fail.',
      needsBuild: true,
      load: () => import('./llm/run.ts'),
    },
    famous: {
      about: 'What the published limits of well-known services admit of seeded traces.',
      load: () => import('./famous/run.ts'),
    },
    clients: {
      about: 'How long real HTTP clients wait after a refusal, by the headers that they receive.',
      needsBuild: true,
      load: () => import('./clients/run.ts'),
    },
    starved: {
      about: 'The tests of npm test while one busy process per core competes with them.',
      needsBuild: true,
      load: async () => (await import('./tests.ts')).starved,
    },
    'newest-node': {
      about: 'All tests on the newest Node with long-term support.',
      needsBuild: true,
      load: async () => (await import('./tests.ts')).onNewestNode,
    },
  } satisfies Readonly<Record<string, Listed>>),
);

/** Other commands that measure or check the project, and those that write files which tests compare. */
export const otherCommands: readonly (readonly [command: string, about: string])[] = [
  ['npm run bench -- --against DIR', 'Compares this build with another built checkout, row by row.'],
  ['npm run proof -- quotas --buckets 100000', 'The CPU time of reports of 100,000 buckets over 20 streams.'],
  ['npm run fuzz -- --minutes 10', 'The property tests with new seeds.'],
  ['npm run mutants', 'Makes small changes to src/, one by one, and checks that tests find them.'],
  ['npm run release -- --dry-run', 'Builds all artifacts of a release from the last commit, and installs them.'],
  ['npm run site -- --serve', 'Builds docs/ as a site with search, and serves it.'],
  ['npm run tour -- --auto', 'The five-minute tour, without waiting for Enter.'],
  ['npm run docs -- scenarios', 'Draws what each algorithm does in each traffic model.'],
  ['npm run docs -- client-reference', 'Writes the reference of weir-client to client/reference.'],
  ['npx tsx deploy/image/rootfs.ts --out DIR', 'Assembles the root file system of the image.'],
  ['UPDATE_PAGES=1 npx jest test/docs/page-runs', 'Updates the command output that pages show.'],
  ['UPDATE_SCREENSHOTS=1 npx jest test/parts/console/browser', 'Updates the screenshots of the console.'],
  ['UPDATE_SCREENSHOTS=1 npx jest test/e2e/report-page', 'Updates the screenshot of a report.'],
  ['UPDATE_GOLDEN=1 npx jest test/deploy/charts', 'Writes the rendered chart and deploy/kustomize/base.'],
];

/** Tests that repeat more, or run longer, if a variable is set. */
export const longForms: typeof otherCommands = [
  ['CANDIDATE_REQUESTS=1000000 npx jest test/parts/candidate/equality', 'A candidate answers as its rules would.'],
  ['CLIENT_FAULT_CALLS=1000000 npx jest test/client/faults', 'The client under faults.'],
  ['CONFORMANCE=all npx jest test/conformance/process', 'Every recorded answer of envoyproxy/ratelimit.'],
  ['CONFORMANCE_FAULTS=all npx jest test/conformance/kit', 'rls-conformance: all cases, and 20 faults one by one.'],
  ['JUDGE_RUNS=10000 npx jest test/conformance/judge/judge.test', 'The judge raises no alarm for correct histories.'],
  ['EXPLAIN_RUNS=100000 npx jest test/parts/explain/explain', 'Explain predicts the next answer, for random rules.'],
  ['IN_FLIGHT_SECONDS=100 npx jest test/e2e/in-flight', 'Requests in flight: ten minutes through Envoy.'],
  ['LEDGER_RUNS=10000 npx jest test/engine/ledger/model', 'The ledger decides like its model.'],
  ['LISTED_COUNTERS=1000000 npx jest test/parts/counters/slices', 'Listings of a million counters of 10,000 rules.'],
  ['QUOTA_SECONDS=600 npx jest test/parts/quotas/bound', 'Quotas for proxies: ten minutes through Envoys.'],
  ['REPLAY_LIVE_REQUESTS=1000000 npx jest test/e2e/replay', 'A replay gives the answers of a running service.'],
  ['REPLAY_REQUESTS=1000000 npx jest test/parts/replay/equivalence', 'A replay gives the recorded answers.'],
  ['RETRY_RUNS=100000 npx jest test/engine/decide/retry', 'A refused request passes after its wait, not earlier.'],
  ['SITE_PARTITION_SECONDS=60 npx jest test/parts/sites/processes', 'Sites that are partitioned, as processes.'],
  ['SITE_SEEDS=10000 npx jest test/parts/sites/simulation', 'The simulation of sites.'],
];
