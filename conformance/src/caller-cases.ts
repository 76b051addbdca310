import type { Case, Request, Step } from './case.ts';

const ENVOY = 'https://www.envoyproxy.io/docs/envoy/latest';
const FILTER = `${ENVOY}/configuration/http/http_filters/rate_limit_filter`;

const limited = (code: string, limit: number, remaining: number) => ({
  code,
  current_limit: { requests_per_unit: limit, unit: 'HOUR' },
  limit_remaining: remaining,
  duration_until_reset: '{reset:HOUR}',
});
const OK = { code: 'OK', limit_remaining: 0 };

type Descriptor = NonNullable<Request['descriptors']>[number];
const entry = (key: string, value: string, more: Omit<Descriptor, 'entries'> = {}): Descriptor => ({
  entries: [[key, value]],
  ...more,
});

const rls = (descriptors: readonly Descriptor[], expect: Step['expect'], more: Partial<Step> = {}): Step => ({
  do: 'rls',
  request: { domain: 'calls', descriptors },
  ...(expect && { expect }),
  ...more,
});

/** Rules of one domain with one limit an hour for each key. */
const rules = (limits: Readonly<Record<string, number>>): Case['files'] => ({
  'calls.yaml': `domain: calls\ndescriptors:\n${Object.entries(limits)
    .map(([key, limit]) => `  - { key: "${key}", rate_limit: { unit: hour, requests_per_unit: ${limit} } }\n`)
    .join('')}`,
});

const made = (id: string, one: Omit<Case, 'id' | 'profile' | 'unit'>): Case => ({
  id,
  profile: id.split('/')[0] as Case['profile'], // ids begin with their profile
  unit: 'MINUTE',
  ...one,
});

/** Cases of callers, which the corpus of one server does not have. */
export const callerCases: readonly Case[] = [
  made('envoy/actions', {
    title: 'a descriptor for each action, of which some match no rule',
    why: 'Routes send what they have; a descriptor without a rule must not disturb the others.',
    source: FILTER,
    files: rules({ remote_address: 3, generic_key: 2 }),
    steps: [
      rls([entry('generic_key', 'slow'), entry('remote_address', '192.0.2.1'), entry('header_match', 'x')], {
        overall_code: 'OK',
        statuses: [limited('OK', 2, 1), limited('OK', 3, 2), OK],
      }),
    ],
  }),
  made('envoy/at-once', {
    title: '100 calls at once on one connection',
    why: 'All workers of a proxy call at the same time: a counter that is read before it is written admits too many.',
    source: 'https://github.com/envoyproxy/ratelimit/blob/main/src/redis/fixed_cache_impl.go',
    files: rules({ user: 60 }),
    steps: [rls([entry('user', 'ann')], { admitted: 60 }, { parallel: 100 })],
  }),
  made('envoy/long-values', {
    title: 'a value of 4,000 bytes, and one that is not ASCII',
    why: 'Values are paths and headers of clients: they are long, and in any language.',
    source: FILTER,
    files: rules({ path: 2 }),
    steps: [
      rls([entry('path', `/${'a'.repeat(4_000)}`)], { overall_code: 'OK', statuses: [limited('OK', 2, 1)] }),
      rls([entry('path', '/größe/日本')], { overall_code: 'OK', statuses: [limited('OK', 2, 1)] }),
      rls([entry('path', '/größe/日')], { overall_code: 'OK', statuses: [limited('OK', 2, 1)] }),
    ],
  }),
  made('envoy/dynamic-limit', {
    title: 'a limit from dynamic metadata',
    why: "Envoy reads a customer's limit from metadata and sends it with the request.",
    source: `${ENVOY}/api-v3/config/route/v3/route_components.proto`,
    files: rules({ customer: 2 }),
    steps: [
      rls([entry('customer', 'acme', { limit: { requests_per_unit: 7, unit: 'HOUR' } })], {
        overall_code: 'OK',
        statuses: [limited('OK', 7, 6)],
      }),
    ],
  }),
  made('envoy/cost', {
    title: 'the hits of one descriptor from the request',
    why: 'A route may count requests for one limit and bytes for another.',
    source: `${ENVOY}/api-v3/config/route/v3/route_components.proto`,
    files: rules({ requests: 5, bytes: 5_000 }),
    steps: [
      rls([entry('requests', 'a'), entry('bytes', 'a', { hits_addend: 1_200 })], {
        overall_code: 'OK',
        statuses: [limited('OK', 5, 4), limited('OK', 5_000, 3_800)],
      }),
    ],
  }),
  made('give-back/at-the-end', {
    title: 'hits that come back at the end of a stream',
    why: 'Envoy limits requests in flight by hits that it gives back; without it the limit fills up for ever.',
    source: `${ENVOY}/api-v3/extensions/common/ratelimit/v3/ratelimit.proto`,
    files: rules({ tenant: 2 }),
    steps: [
      rls([entry('tenant', 'a')], { overall_code: 'OK' }, { repeat: 2 }),
      rls([entry('tenant', 'a', { is_negative_hits: true, hits_addend: 1 })], { overall_code: 'OK' }),
      rls([entry('tenant', 'a')], { overall_code: 'OK', statuses: [limited('OK', 2, 0)] }),
    ],
  }),
  made('give-back/not-below-zero', {
    title: 'more hits come back than were taken',
    why: 'A report that arrives twice must not raise the limit.',
    source: `${ENVOY}/api-v3/extensions/common/ratelimit/v3/ratelimit.proto`,
    files: rules({ tenant: 2 }),
    steps: [
      rls([entry('tenant', 'a', { is_negative_hits: true, hits_addend: 5 })], { overall_code: 'OK' }),
      rls([entry('tenant', 'a')], { overall_code: 'OK', statuses: [limited('OK', 2, 1)] }),
    ],
  }),
  made('agentgateway/check-and-charge', {
    title: 'a check, then a charge of the tokens used',
    why: 'The tokens of a response are known at its end: the charge may exceed the limit, and the next check is refused.',
    source: 'https://agentgateway.dev/docs/',
    files: rules({ model: 100 }),
    steps: [
      rls([entry('model', 'm', { hits_addend: 0 })], { overall_code: 'OK', statuses: [limited('OK', 100, 100)] }),
      rls([entry('model', 'm', { hits_addend: 150 })], { overall_code: '{any}' }),
      rls([entry('model', 'm', { hits_addend: 0 })], { overall_code: 'OVER_LIMIT' }),
    ],
  }),
  made('agentgateway/empty-charge', {
    title: 'a charge without descriptors is an error',
    why: 'A missing attribute drops the descriptor; a charge that counts nothing must not look like success.',
    source: 'https://github.com/agentgateway/agentgateway/issues/3282',
    files: rules({ model: 100 }),
    steps: [{ do: 'rls', request: { domain: 'calls', hits_addend: 500 }, expect: { grpc_status: '{any}' } }],
  }),
  made('kuadrant/check', {
    title: 'CheckRateLimit spends nothing',
    why: 'The filter checks each request, and reports its cost later.',
    source: 'https://github.com/Kuadrant/limitador',
    files: rules({ user: 2 }),
    steps: [
      { ...rls([entry('user', 'a')], { overall_code: 'OK' }, { repeat: 5 }), do: 'kuadrant_check' },
      { ...rls([entry('user', 'a')], { overall_code: 'OK' }), do: 'kuadrant_report' },
      { ...rls([entry('user', 'a')], { overall_code: 'OK' }), do: 'kuadrant_check' },
      { ...rls([entry('user', 'a')], { overall_code: 'OK' }, { repeat: 2 }), do: 'kuadrant_report' },
      { ...rls([entry('user', 'a')], { overall_code: 'OVER_LIMIT' }), do: 'kuadrant_check' },
    ],
  }),
];
