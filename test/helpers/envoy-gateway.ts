import type { Descriptor, Resource } from './control-plane.ts';

/** The domain of a listener, as Envoy Gateway names it: namespace, gateway, listener. */
export const LISTENER = 'default/eg/http';

/** A route of that listener, as Envoy Gateway names it. */
export const ROUTE = 'httproute/default/shop/rule/0/match/0/shop_example_com';

/** The domain of a policy whose limits its routes share. */
export const POLICY = 'default/shop-limits';

type Limit = NonNullable<Descriptor['rate_limit']>;

/** The node of a match in Envoy: its value equals its key. */
const matched = (key: string, more: Partial<Descriptor>): Descriptor => ({ key, value: key, ...more });

/**
 * The nodes of a BackendTrafficPolicy rule below its route, a chain that ends with the limit, by what the rule selects.
 */
export const selected = {
  'each value of a header': (limit: Limit): Descriptor => ({ key: 'rule-0-match-0', rate_limit: limit }),
  'one value of a header': (limit: Limit): Descriptor => matched('rule-0-match-0', { rate_limit: limit }),
  'all traffic': (limit: Limit): Descriptor => matched('rule-0-match--1', { rate_limit: limit }),
  'a method': (limit: Limit): Descriptor => matched('rule-0-method', { rate_limit: limit }),
  'a path': (limit: Limit): Descriptor => matched('rule-0-path', { rate_limit: limit }),
  'a network': (limit: Limit): Descriptor => ({
    ...{ key: 'masked_remote_address', value: '192.168.0.0/16', rate_limit: limit },
  }),
  'all but a network': (limit: Limit): Descriptor => ({
    ...{ key: 'masked_remote_address', value: 'invert:192.168.0.0/16', rate_limit: limit },
  }),
  'each address of a network': (limit: Limit): Descriptor => ({
    key: 'masked_remote_address',
    value: '192.168.0.0/16',
    descriptors: [{ key: 'remote_address', rate_limit: limit }],
  }),
  'two headers and a network': (limit: Limit): Descriptor =>
    matched('rule-0-match-0', {
      descriptors: [
        matched('rule-0-match-1', {
          descriptors: [{ key: 'masked_remote_address', value: '0.0.0.0/0', rate_limit: limit }],
        }),
      ],
    }),
  'a header, in shadow mode': (limit: Limit): Descriptor =>
    matched('rule-0-match-0', { rate_limit: limit, shadow_mode: true }),
} as const;

/** The resource of a listener whose one route has these rules. */
export const listener = (...rules: readonly Descriptor[]): Resource => ({
  name: LISTENER,
  domain: LISTENER,
  descriptors: [matched(ROUTE, { descriptors: rules })],
});

/** The resource of a policy with one shared rule. */
export const sharedPolicy = (rule: Descriptor): Resource => ({
  name: POLICY,
  domain: POLICY,
  descriptors: [matched(`${POLICY}/rule/0`, { descriptors: [rule] })],
});

/**
 * The resource that Envoy AI Gateway makes of a QuotaPolicy: one tenant's quota for a model, and the default for
 * others.
 */
export const quotaPolicy = (tenant: Limit, others: Limit): Resource => ({
  name: 'ai-gateway-quota',
  domain: 'ai-gateway-quota',
  descriptors: [
    {
      key: 'backend_name',
      value: 'default/openai',
      descriptors: [
        {
          key: 'model_name_override',
          value: 'gpt-4',
          descriptors: [
            matched('rule-0-x-tenant|acme-match-0', { rate_limit: tenant, quota_mode: true }),
            matched('rule-1-match--1', { rate_limit: others, quota_mode: true }),
          ],
        },
      ],
    },
  ],
});
