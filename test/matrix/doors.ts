import { Client, credentials, type ServiceError } from '@grpc/grpc-js';
import type { MethodDefinition } from '@grpc/proto-loader';
import type { WireRequest } from '../../src/edge/wire/wire.ts';
import { createEngine, type Engine } from '../../src/engine/index.ts';
import { kuadrantService } from '../../src/parts/kuadrant/service.ts';
import { createClient, type GrpcClient } from '../helpers/grpc-client.ts';
import type { Weir } from '../helpers/weir.ts';
import { DOMAIN, hasId, type Kind } from './kinds.ts';

/** One request for a hit of a kind: the value of its key, and the id of the request. */
export interface Ask {
  readonly kind: Kind;
  readonly value: string;
  readonly id: string;
  /** The status of a response. Default: one hit. */
  readonly hits?: number;
}

/** Whether a request passes. */
export type Door = (ask: Ask) => Promise<boolean>;

function entriesOf(key: string, { kind, value, id }: Ask) {
  const others = [
    ...(hasId(kind) ? [{ key: 'id', value: id }] : []),
    ...(kind.isShared ? [{ key: 'tenant', value: 'a' }] : []),
  ];
  return [{ key, value }, ...(kind.isReordered ? others.toReversed() : others)];
}

/** The entries of each descriptor of a request. */
const listOf = (ask: Ask) =>
  [ask.kind.name, ...(ask.kind.beside ? [ask.kind.beside] : [])].map((key) => entriesOf(key, ask));

/** The limit that a request states: 3 a day. */
const STATED = { requests_per_unit: 3, unit: 4, unit_multiplier: null } as const;

export const wireOf = (ask: Ask): WireRequest => ({
  domain: DOMAIN,
  descriptors: listOf(ask).map((entries) => ({
    ...{ entries, hits_addend: null, is_negative_hits: false },
    limit: ask.kind.isStated ? STATED : null,
  })),
  hits_addend: ask.hits ?? 1,
});

/** The same without ids, as Kuadrant's filter sends it. */
function wireWithoutIds(ask: Ask): WireRequest {
  const wire = wireOf(ask);
  const descriptors = wire.descriptors.map((one) => ({
    ...one,
    entries: one.entries.filter(({ key }) => key !== 'id'),
  }));
  return { ...wire, descriptors };
}

export const jsonOf = (ask: Ask) => ({
  domain: DOMAIN,
  descriptors: listOf(ask).map((entries) => ({
    entries,
    ...(ask.kind.isStated && { limit: { requestsPerUnit: 3, unit: 'DAY' } }),
  })),
  hitsAddend: ask.hits ?? 1,
});

/** The rate limits that make requests of each kind from headers, for /authz. */
export function mappingOf(kinds: readonly Kind[]): string {
  const action = (key: string): string => `{ request_headers: { header_name: x-${key}, descriptor_key: ${key} } }`;
  const lines = kinds.flatMap((kind) =>
    [kind.name, ...(kind.beside ? [kind.beside] : [])].map((name) => {
      const others = [...(hasId(kind) ? ['id'] : []), ...(kind.isShared ? ['tenant'] : [])];
      const more = kind.isReordered ? others.toReversed() : others;
      return `  - actions: [${[name, ...more].map((key) => action(key)).join(', ')}]`;
    }),
  );
  return [`domain: ${DOMAIN}`, 'rate_limits:', ...lines, ''].join('\n');
}

const codes = { 1: true, 2: false } as const;
const passed = (code: number): boolean => codes[code as keyof typeof codes];

/** All doors of a running service, and an engine on the same store. */
export async function openDoors(weir: Weir, rules: string, store: 'memory' | { readonly redis: string }) {
  const target = `127.0.0.1:${weir.grpcPort}`;
  const client: GrpcClient = createClient(target);
  const kuadrant = new Client(target, credentials.createInsecure());
  const engine: Engine = await createEngine({ rules: { text: rules }, store });
  const post = async (
    path: string,
    body: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<boolean> => {
    const answer = await fetch(`http://127.0.0.1:${weir.httpPort}${path}`, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json', ...headers },
    });
    const text = await answer.text();
    if (answer.status === 400) throw new Error(answer.headers.get('x-weir-reason') ?? text);
    return answer.status === 200;
  };
  const call = <R>(name: string, request: object): Promise<R> =>
    new Promise((resolve, reject) => {
      const method = kuadrantService[name] as unknown as MethodDefinition<object, R>; // by its file
      const done = (error: ServiceError | null, response?: R) =>
        response === undefined ? reject(error) : resolve(response);
      kuadrant.makeUnaryRequest(method.path, method.requestSerialize, method.responseDeserialize, request, done);
    });
  const doors = {
    ShouldRateLimit: async (ask) => passed((await client.send(wireOf(ask))).overall_code),
    batch: async (ask) => {
      const { answers } = await client.decide([wireOf(ask)]);
      const [answer] = answers;
      return passed(answer && 'response' in answer ? answer.response.overall_code : 0);
    },
    '/json': (ask) => post('/json', jsonOf(ask)),
    '/authz': async (ask) => {
      const headers = Object.fromEntries(
        listOf(ask).flatMap((list) => list.map(({ key, value }) => [`x-${key}`, value])),
      );
      return (await fetch(`http://127.0.0.1:${weir.httpPort}/authz`, { headers })).status === 200;
    },
    engine: async (ask) => {
      const descriptors = listOf(ask).map((entries) => ({ entries, hits: ask.hits ?? 1 }));
      return (await engine.decide({ domain: DOMAIN, descriptors })).overallCode === 'OK';
    },
    '/holds/acquire': (ask) => post('/holds/acquire', { request: jsonOf(ask) }),
    '/holds/reserve': (ask) => post('/holds/reserve', { request: jsonOf(ask) }),
    'Kuadrant check and report': async (ask) => {
      const request = wireWithoutIds(ask);
      const { overall_code } = await call<{ overall_code: number }>('CheckRateLimit', request);
      if (passed(overall_code)) await call('Report', request);
      return passed(overall_code);
    },
    'Kuadrant reserve': async (ask) => {
      const { domain, descriptors } = wireWithoutIds(ask);
      const { code } = await call<{ code: number }>('Reserve', { domain, descriptors, amount: 1 });
      return passed(code);
    },
  } satisfies Readonly<Record<string, Door>>;
  const close = async (): Promise<void> => {
    client.close();
    kuadrant.close();
    await engine.close();
  };
  return { doors, client, close };
}

export type DoorName = keyof Awaited<ReturnType<typeof openDoors>>['doors'];
