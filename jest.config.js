/**
 * Tests run as CommonJS, transpiled by swc; `npm run check` has checked their types.
 *
 * A suite is a long one if its name ends in `.long.test.ts`. TESTS=short leaves these out, TESTS=long runs only these and
 * the second transport; without TESTS, all of them run.
 */
const project = {
  roots: ['<rootDir>/test'],
  testEnvironment: '<rootDir>/test/runner/environment.cjs',
  setupFilesAfterEnv: ['<rootDir>/test/runner/second-try.js'],
  transform: {
    '\\.ts$': [
      '@swc/jest',
      { jsc: { parser: { syntax: 'typescript' }, target: 'es2023' }, module: { type: 'commonjs' } },
    ],
  },
};
const { TESTS } = process.env;

const suites = {
  ...project,
  displayName: 'h2',
  testMatch: [TESTS === 'long' ? '<rootDir>/test/**/*.long.test.ts' : '<rootDir>/test/**/*.test.ts'],
  testPathIgnorePatterns: ['/node_modules/', ...(TESTS === 'short' ? ['\\.long\\.test\\.ts$'] : [])],
};

/** Some suites once more on the other transport: what its adapter does, not what services decide. */
const secondTransport = {
  ...project,
  displayName: 'grpc-js',
  testMatch: [
    '<rootDir>/test/edge/grpc/grpc-server.test.ts',
    '<rootDir>/test/edge/rls/{holds,batch}.test.ts',
    '<rootDir>/test/parts/holds/{deadlines,slots}.test.ts',
  ],
  globals: { transport: 'grpc-js' },
};

export default {
  projects: TESTS === 'short' ? [suites] : [suites, secondTransport],
  testSequencer: '<rootDir>/test/runner/sequencer.js',
  globalSetup: '<rootDir>/test/runner/setup.ts',
  globalTeardown: '<rootDir>/test/runner/teardown.ts',
  reporters: ['default', '<rootDir>/test/runner/reporter.js'],
  testTimeout: 300_000, // tests that start processes take long where the machine is busy
  maxWorkers: 3, // on two cores, too, since tests mostly wait for other processes
};
