/** `npm run test:quick`: no servers but Redis, on one transport, and nothing that takes more than about ten seconds. */
const isQuick = process.env.TESTS === 'quick';
const notQuick = [
  '/test/(attack|bench|chaos|deploy|e2e|examples|console/browser)/',
  '/test/advise/(live|proof)',
  '/test/algorithms/(oracle|properties)',
  '/test/client/(deferral-|faults|frameworks|package|readme|reference)',
  '/test/backends/(memcached|black-hole|formats|redis/(expiry|faults|leases|topologies))',
  '/test/(conformance/process|docs/(clients|commands|layers|page-runs|site|tasks)|main|observe/pages|rls/service|workers/processes|xds/go-control-plane)',
  '/test/rlqs/(bound|configuration|envoy-traps)',
  '/test/transport/(clients|tls|h2/(attacks|connections|h2spec))',
];

/** Tests run as CommonJS, transpiled by swc; `npm run check` has checked their types. */
const project = {
  roots: ['<rootDir>/test'],
  testEnvironment: 'node',
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
        '<rootDir>/test/transport/{grpc-server,tls}.test.ts',
        '<rootDir>/test/rls/{service,holds,batch}.test.ts',
        '<rootDir>/test/slots/*.test.ts',
      ],
      globals: { transport: 'grpc-js' },
    },
  ].slice(0, isQuick ? 1 : undefined),
  globalSetup: '<rootDir>/test/helpers/setup.ts',
  testTimeout: 60_000,
  maxWorkers: 2,
};
