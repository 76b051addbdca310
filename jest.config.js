/**
 * `npm run test:quick`: one transport, no server but Redis, at most one process of the service at a time, and nothing
 * that takes more than about ten seconds.
 */
const isQuick = process.env.TESTS === 'quick';
const notQuick = [
  '/test/(conformance|deploy|e2e|examples|fuzz|proof)/',
  '/test/cli/(main|guard/namespace|commands/(completion|offenders|views))\\.',
  '/test/client/(calls|deferral|deferral-drain|deferral-recovery|faults|fetch-shared|frameworks|many-calls|package|readme|reference|reservations|slots)\\.',
  '/test/docs/(advise|clients|commands|good-client|layers|page-runs|site|tasks)\\.',
  '/test/edge/grpc/(clients|full-ports|grpc-server|tls)\\.',
  '/test/edge/http/(bounds|pace)\\.',
  '/test/edge/rlqs/(bound|configuration|envoy-traps|operations|service)\\.',
  '/test/edge/rls/(holds|service)\\.',
  '/test/edge/sites/(channel|kuadrant|operations|processes|simulation|twins)\\.',
  '/test/edge/xds/(book|go-control-plane|overlay|tls)\\.',
  '/test/engine/algorithms/(new-algorithm|oracle|properties)\\.',
  '/test/engine/backends/(black-hole|cas|fair-share|formats|ipv6|reservation|usage)\\.',
  '/test/engine/backends/memcached/',
  '/test/engine/backends/memory/counter-bytes\\.',
  '/test/engine/backends/redis/(cluster|concurrency|expiry|faults|leases|script-work|sentinel-tls|topologies|usable|versions)\\.',
  '/test/engine/decide/(budget|kuadrant|retry)\\.',
  '/test/engine/holds/(adaptive|fair-share)\\.',
  '/test/engine/ledger/(lease|model|unknown-outcomes)\\.',
  '/test/engine/rules/reload/(book|in-force|service)\\.',
  '/test/h2/identity/system-cas\\.',
  '/test/h2/http2/(attacks|connections|h2spec|idle-connections|side-turns)\\.',
  '/test/lab/advise/(live|proof)\\.',
  '/test/lab/envoy/',
  '/test/lab/replay/report/page\\.',
  '/test/lab/simulate/(simulate|upstream)\\.',
  '/test/lab/sketches/space-saving\\.',
  '/test/operate/admin/(answers|explain|shared|store-failure)\\.',
  '/test/operate/candidate/(equality|figures)\\.',
  '/test/operate/console/(browser/|prometheus-history\\.)',
  '/test/operate/(findings|usage)/',
  '/test/operate/observe/pages\\.',
  '/test/operate/tracing/',
  '/test/serve/(control-plane|control/totals-of-workers|never-reached|outgoing-tls|pending-commits|redis|start-signals|usage)\\.',
  '/test/serve/supervisor/(control|handed-connections|processes|rotations|without-rules)\\.',
];

/** Tests run as CommonJS, transpiled by swc; `npm run check` has checked their types. */
const project = {
  roots: ['<rootDir>/test'],
  testEnvironment: '<rootDir>/test/helpers/environment.cjs',
  setupFilesAfterEnv: ['<rootDir>/test/helpers/second-try.js'],
  transform: {
    '\\.ts$': [
      '@swc/jest',
      { jsc: { parser: { syntax: 'typescript' }, target: 'es2023' }, module: { type: 'commonjs' } },
    ],
  },
};

export default {
  projects: [
    {
      ...project,
      displayName: 'h2',
      testMatch: ['<rootDir>/test/**/*.test.ts'],
      testPathIgnorePatterns: ['/node_modules/', ...(isQuick ? notQuick : [])],
    },
    {
      ...project,
      displayName: 'grpc-js', // once more on the other transport: what its adapter does, not what services decide
      testMatch: [
        '<rootDir>/test/edge/grpc/grpc-server.test.ts',
        '<rootDir>/test/edge/rls/{holds,batch}.test.ts',
        '<rootDir>/test/engine/decide/{deadlines,slots}.test.ts',
      ],
      globals: { transport: 'grpc-js' },
    },
  ].slice(0, isQuick ? 1 : undefined),
  testSequencer: '<rootDir>/test/helpers/sequencer.js',
  globalSetup: '<rootDir>/test/helpers/setup.ts',
  globalTeardown: '<rootDir>/test/helpers/teardown.ts',
  reporters: ['default', '<rootDir>/test/helpers/second-try-reporter.js'],
  testTimeout: 300_000, // tests that start processes take long where the machine is busy
  maxWorkers: 3, // on two cores, too, since tests mostly wait for other processes
};
