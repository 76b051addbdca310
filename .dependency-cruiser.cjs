/** Imports point one way: main -> serve -> transport, http -> rls -> decide -> rules, stores -> algorithms. */
const mayImport = {
  'src/algorithms/': ['src/algorithms/'],
  'src/clock\\.ts': [],
  'src/rules/': ['src/rules/', 'src/algorithms/'],
  'src/stores/': ['src/stores/', 'src/algorithms/', 'src/clock.ts'],
  'src/decide\\.ts': ['src/rules/', 'src/stores/', 'src/algorithms/'],
  'src/observe/': ['src/observe/', 'src/decide.ts', 'src/rules/', 'src/stores/', 'src/algorithms/'],
  'src/settings\\.ts': ['src/algorithms/', 'src/rules/files.ts', 'src/stores/redis/connect.ts'],
  'src/rls/': ['src/rls/', 'src/decide.ts', 'src/rules/', 'src/stores/', 'src/algorithms/', 'src/clock.ts'],
  'src/transport/': ['src/transport/', 'src/rls/', 'src/clock.ts'],
  'src/http/': ['src/http/', 'src/rls/', 'src/decide.ts', 'src/rules/', 'src/stores/'],
};

/** A package that only one part of the tree may know. */
const packageOf = {
  '^(@grpc|grpc-health-check)': '^src/(rls|transport|ask)',
  '^ioredis$': '^src/stores/redis/',
  '^lossless-json$': '^src/rls/',
  '^(js-yaml|luxon)$': '^src/rules/',
  '^(pino|pino-pretty|prom-client|hot-shots)$': '^src/observe/',
  '^commander$': '^src/main\\.ts$',
};

module.exports = {
  forbidden: [
    { name: 'no-circular', severity: 'error', from: {}, to: { circular: true } },
    ...Object.entries(mayImport).map(([from, to]) => ({
      name: `layer ${from}`,
      severity: 'error',
      from: { path: `^${from}` },
      to: { path: '^src/', pathNot: to.map((path) => `^${path}`) },
    })),
    ...Object.entries(packageOf).map(([name, place]) => ({
      name: `package ${name}`,
      severity: 'error',
      from: { path: '^src/', pathNot: place },
      to: { path: `node_modules/${name.replace('^', '').replace('$', '/')}` },
    })),
  ],
  options: { parser: 'swc', tsPreCompilationDeps: true, doNotFollow: { path: 'node_modules' } },
};
