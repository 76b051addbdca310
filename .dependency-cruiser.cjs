/** Imports point one way: main -> serve -> transport, http -> rls -> decide -> rules, ledger -> backends -> algorithms. */
const mayImport = {
  'src/algorithms/': ['src/algorithms/'],
  'src/(clock|slices|json|nearest|grpc-status|package-root)\\.ts': [],
  'src/protobuf/': ['src/protobuf/', 'src/json.ts'],
  'src/rules/': ['src/rules/', 'src/algorithms/', 'src/json.ts', 'src/nearest.ts'],
  'src/backends/': ['src/backends/', 'src/algorithms/', 'src/clock.ts'],
  'src/ledger/': ['src/ledger/', 'src/backends/', 'src/algorithms/', 'src/clock.ts'],
  'src/overrides\\.ts': ['src/rules/', 'src/algorithms/', 'src/clock.ts'],
  'src/decide\\.ts': ['src/overrides.ts', 'src/rules/', 'src/ledger/', 'src/backends/', 'src/algorithms/'],
  'src/slots/': ['src/slots/', 'src/decide.ts', 'src/ledger/', 'src/backends/', 'src/algorithms/'],
  'src/observe/': [
    'src/observe/',
    'src/http/',
    'src/rls/',
    'src/decide.ts',
    'src/rules/',
    'src/ledger/',
    'src/backends/',
    'src/algorithms/',
    'src/clock.ts',
    'src/slices.ts',
  ],
  'src/settings(\\.ts|/)': [
    'src/settings/',
    'src/algorithms/',
    'src/rules/files.ts',
    'src/backends/tls.ts',
    'src/backends/redis/address.ts',
    'src/observe/mogrifier.ts',
    'src/nearest.ts',
  ],
  'src/rls/': [
    'src/rls/',
    'src/slots/',
    'src/protobuf/',
    'src/decide.ts',
    'src/rules/',
    'src/backends/',
    'src/algorithms/',
    'src/clock.ts',
    'src/json.ts',
  ],
  'src/admin/': [
    'src/admin/',
    'src/http/',
    'src/rls/',
    'src/observe/exposition.ts',
    'src/decide.ts',
    'src/overrides.ts',
    'src/rules/',
    'src/ledger/',
    'src/backends/',
    'src/algorithms/',
    'src/clock.ts',
    'src/slices.ts',
  ],
  'src/envoy/': ['src/envoy/', 'src/rules/'],
  'src/overload/': ['src/overload/', 'src/rls/'],
  'src/xds/': ['src/xds/', 'src/protobuf/', 'src/rules/'],
  'src/transport/': ['src/transport/', 'src/rls/', 'src/overload/', 'src/rules/', 'src/clock.ts'],
  'src/http/': [
    'src/http/',
    'src/rls/',
    'src/overload/',
    'src/decide.ts',
    'src/rules/',
    'src/backends/',
    'src/slices.ts',
  ],
};

/** Importable from anywhere. */
const everywhere = ['src/(grpc-status|package-root)\\.ts'];

/** A package that only one part of the tree may know. */
const packageOf = {
  '^@grpc': '^src/(protobuf|rls|transport|xds|overload|ask)',
  '^protobufjs$': '^src/protobuf/',
  '^(ioredis|cluster-key-slot)$': '^src/backends/redis/',
  '^(js-yaml|luxon)$': '^src/rules/',
  '^(pino|pino-pretty|prom-client|hot-shots)$': '^src/observe/',
  '^@opentelemetry': '^src/observe/trac(ed|ing)\\.ts$',
  '^commander$': '^src/(main\\.ts$|commands/)',
};

module.exports = {
  forbidden: [
    { name: 'no-circular', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'OpenTelemetry is loaded where traces are wanted, and nowhere else',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/observe/trac(ed|ing)\\.ts$' },
      to: { path: '^src/observe/trac(ed|ing)\\.ts$', dynamic: false },
    },
    ...Object.entries(mayImport).map(([from, to]) => ({
      name: `layer ${from}`,
      severity: 'error',
      from: { path: `^${from}` },
      to: { path: '^src/', pathNot: [...to, ...everywhere].map((path) => `^${path}`) },
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
