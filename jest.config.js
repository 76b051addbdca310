/**
 * `npm run test:quick`: one transport, no server but Redis, at most one process of the service at a time, and nothing
 * that takes more than about ten seconds.
 */
const isQuick = process.env.TESTS === 'quick';
const notQuick = [
  '/test/(attack|bench|chaos|deploy|e2e|envoy|examples|console/browser)/',
  '/test/admin/(candidate-diff|explain\\.test|shared|space-saving|store-failure)',
  '/test/advise/(live|proof)',
  '/test/algorithms/(new-algorithm|oracle|properties)',
  '/test/client/(calls|deferral|faults|fetch-shared|frameworks|package|readme|reference|reservations|slots)',
  '/test/backends/(cas|memcached|memory/counter-bytes|black-hole|formats)',
  '/test/backends/redis/(cluster\\.test|concurrency|expiry|faults|leases|sentinel-tls|topologies|usable)',
  '/test/(conformance/(process|recorded)|docs/(advise|clients|commands|good-client|layers|page-runs|site|tasks)|http/bounds|ledger/(lease\\.|model|unknown-outcomes)|main|rls/(holds|service))',
  '/test/(observe/(pages|tracing)|replay/report/page|xds/(failing|go-control|overlay))',
  '/test/rlqs/(bound|configuration|envoy-traps|service)',
  '/test/rules/rules-process',
  '/test/serve/(control-plane|pending-commits|redis|start-signals)',
  '/test/(sites/(kuadrant|operations|processes)|slots/kuadrant)',
  '/test/transport/(clients|full-ports|tls|h2/(attacks|connections|h2spec|idle-connections))',
  '/test/workers/(handed-connections|no-descriptors|processes|rotations|without-rules)',
];

/** Tests run as CommonJS, transpiled by swc; `npm run check` has checked their types. */
const project = {
  roots: ['<rootDir>/test'],
  testEnvironment: 'node',
  sandboxInjectedGlobals: ['Math'], // its functions are slow where Jest's sandbox looks them up for each use
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
      displayName: 'grpc-js', // what speaks to a gRPC server once more, on the other transport
      testMatch: [
        '<rootDir>/test/transport/{full-ports,grpc-server,tls}.test.ts',
        '<rootDir>/test/rls/{service,holds,batch}.test.ts',
        '<rootDir>/test/slots/*.test.ts',
      ],
      globals: { transport: 'grpc-js' },
    },
  ].slice(0, isQuick ? 1 : undefined),
  globalSetup: '<rootDir>/test/helpers/setup.ts',
  testTimeout: 300_000, // tests that start processes take long where the machine is busy
  maxWorkers: 3, // on two cores, too, since tests mostly wait for other processes
};
