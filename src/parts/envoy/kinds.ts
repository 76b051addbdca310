/** The kinds of configuration that `weir envoy` writes. */
export const kinds = ['envoy', 'istio', 'envoy-gateway'] as const;
export type Kind = (typeof kinds)[number];
