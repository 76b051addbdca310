/** Folders in order: each imports only from those before it, and from itself. Files beside folders come after them. */
const order = {
  // `parts` is above all, and has rules of its own
  src: 'base protobuf h2 engine edge operate settings serve cli',
  'src/h2': 'identity bounds listen http2 grpc',
  'src/engine': 'lua algorithms holds backends ledger rules decide open',
  'src/engine/rules': 'read time match compile reload',
  'src/edge': 'listing wire rls overload grpc http',
  'src/operate': 'answers observe candidate admin status',
  'src/serve': 'parts link decider control supervisor',
  'src/cli': 'process commands',
};

/** Optional capabilities: see `src/parts/parts.ts`. The core may import the files beside their folders. */
const PARTS = '^src/parts/';

/** What several parts share: traffic as requests, and the format of recordings. */
const SHARED = '^src/parts/lab/';

/** Parts that extend another one, and are taken out with it. */
const extended = {
  advise: 'replay',
  simulate: 'replay',
  adaptive: 'fair-shares',
  kuadrant: 'holds',
  console: 'status',
};
const extending = Object.keys(extended).join('|');

/** A package that only these folders may know. */
const packageOf = {
  '^@grpc': '^src/(protobuf|edge|parts/(xds|holds|kuadrant|lab|sites|ask|grpc-js|reflection))/',
  '^protobufjs$': '^$', // only tools and tests know it
  '^(ioredis|cluster-key-slot)$': '^src/parts/redis/',
  '^js-yaml$': '^src/(engine/rules/read|parts/envoy)/',
  '^ipaddr.js$': '^src/(base/address|engine/rules/read)',
  '^luxon$': '^src/engine/rules/time/',
  '^(pino|pino-pretty)$': '^src/operate/observe/',
  '^re2js$': '^src/(operate/observe|parts/sinks)/',

  '^hot-shots$': '^src/parts/sinks/',
  '^@opentelemetry': '^src/parts/tracing/',
  '^pg$': '^src/parts/usage/',
  '^csv-parse': '^src/parts/replay/readers/',
  '^pure-rand$': '^src/parts/simulate/',
  '^commander$': '^src/(cli|parts)/',
};

const rulesOf = ([parent, list]) => {
  const folders = list.split(' ');
  return folders.map((folder, at) => ({
    name: `${parent}/${folder} imports only what comes before it`,
    severity: 'error',
    from: { path: `^${parent}/${folder}/` },
    to: { path: `^${parent}/`, pathNot: [`^${parent}/(${folders.slice(0, at + 1).join('|')})/`, PARTS] },
  }));
};

const unlisted = ([parent, list]) => ({
  name: `every folder of ${parent} has its place in the order`,
  severity: 'error',
  from: { path: `^${parent}/[^/]+/`, pathNot: [`^${parent}/(${list.replaceAll(' ', '|')})/`, PARTS] },
  to: {},
});

module.exports = {
  forbidden: [
    ...Object.entries(order).flatMap(rulesOf),
    ...Object.entries(order).map(unlisted),
    {
      name: 'the core knows only the lists of parts',
      severity: 'error',
      from: { path: '^src/', pathNot: PARTS },
      to: { path: PARTS, pathNot: '^src/parts/[^/]+\\.ts$' },
    },
    {
      name: 'parts do not import each other',
      severity: 'error',
      from: { path: '^src/parts/([^/]+)/', pathNot: `^src/parts/(${extending})/` },
      to: { path: PARTS, pathNot: ['^src/parts/$1/', SHARED] },
    },
    ...Object.entries(extended).map(([part, other]) => ({
      name: `the part ${part} imports no other part but ${other}`,
      severity: 'error',
      from: { path: `^src/parts/${part}/` },
      to: { path: PARTS, pathNot: [`^src/parts/(${part}|${other})/`, SHARED] },
    })),
    { name: 'no-circular', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'OpenTelemetry is loaded where traces are wanted, and nowhere else',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: '^src/parts/tracing/tracing\\.ts$', dynamic: false },
    },
    {
      name: 'the client shares nothing with the service but the encoding, how gRPC servers are known, how options are checked, and the spelling of addresses',
      severity: 'error',
      from: { path: '^client/src/' },
      to: { path: '^src/', pathNot: '^src/(protobuf/|h2/identity/|base/(address|options\\.ts))' },
    },
    {
      name: 'the service does not know the client',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: '^client/' },
    },
    {
      name: 'the client does not know its middlewares',
      severity: 'error',
      from: {
        path: '^client/src/',
        pathNot:
          '^client/src/(middleware/|deferral/|outgoing/|(index|express|fastify|hono|koa|nestjs|web|grpc|bullmq|fetch)\\.ts$)',
      },
      to: {
        path: '^client/src/(middleware/|deferral/|outgoing/|(express|fastify|hono|koa|nestjs|web|grpc|bullmq|fetch)\\.ts$)',
      },
    },
    ...Object.entries(packageOf).map(([name, place]) => ({
      name: `package ${name}`,
      severity: 'error',
      from: { path: '^src/', pathNot: place },
      to: { path: `node_modules/${name.replace('^', '').replace('$', '/')}` },
    })),
  ],
  options: { parser: 'swc', tsPreCompilationDeps: true, doNotFollow: { path: 'node_modules' } },
};
