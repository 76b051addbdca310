/** Tests run as CommonJS, transpiled by swc; `npm run check` has checked their types. */
export default {
  roots: ['<rootDir>/test'],
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  testEnvironment: 'node',
  transform: {
    '\\.ts$': [
      '@swc/jest',
      { jsc: { parser: { syntax: 'typescript' }, target: 'es2023' }, module: { type: 'commonjs' } },
    ],
  },
  globalSetup: '<rootDir>/test/helpers/setup.ts',
  testTimeout: 60_000,
  maxWorkers: 2,
};
