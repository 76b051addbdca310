/** What `weir envoy` can configure. */
export const kinds = ['envoy', 'istio', 'envoy-gateway'] as const;
export type Kind = (typeof kinds)[number];
