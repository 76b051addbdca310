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
    { ...project, displayName: 'h2', testMatch: ['<rootDir>/test/**/*.test.ts'] },
    {
      ...project,
      displayName: 'grpc-js', // what speaks to a gRPC server once more, on the other transport
      testMatch: ['<rootDir>/test/transport/{grpc-server,tls}.test.ts', '<rootDir>/test/rls/{service,holds}.test.ts'],
      globals: { transport: 'grpc-js' },
    },
  ],
  globalSetup: '<rootDir>/test/helpers/setup.ts',
  testTimeout: 60_000,
  maxWorkers: 2,
};
