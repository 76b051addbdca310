/** A gRPC server that Envoy asks. */
export interface GrpcTarget {
  readonly host: string;
  readonly port: number;
}

/** JSON is YAML. */
export const quoted = (text: string): string => JSON.stringify(text);

/** Keys of descriptors that an action makes by itself, and no header has. */
export const headerlessKeys: ReadonlySet<string> = new Set([
  'remote_address',
  'masked_remote_address',
  'source_cluster',
  'destination_cluster',
]);

/** A cluster that speaks HTTP/2, as a mapping whose first line stands where the text is put. */
export const grpcCluster = ({ host, port }: GrpcTarget, name: string, indent: string): string =>
  [
    `name: ${name}`,
    'type: STRICT_DNS',
    'connect_timeout: 1s',
    'typed_extension_protocol_options:',
    '  envoy.extensions.upstreams.http.v3.HttpProtocolOptions:',
    '    "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions',
    '    explicit_http_config: { http2_protocol_options: {} }',
    'load_assignment:',
    `  cluster_name: ${name}`,
    '  endpoints:',
    `    - lb_endpoints: [{ endpoint: { address: { socket_address: { address: ${quoted(host)}, port_value: ${port} } } } }]`,
  ].join(`\n${indent}`);

/** What configurations of a whole Envoy differ in; whole lines, but for the filter and the route. */
export interface EnvoyParts {
  /** Of the connection manager, indented by 16. */
  readonly manager?: string;
  /** Before the router, indented by 20 but for the first line. */
  readonly filter: string;
  /** Of the virtual host, indented by 22. */
  readonly virtualHost?: string;
  readonly route: string;
}

/** An Envoy that listens on port 10000, asks Weir, and routes everything to a cluster `upstream`; as YAML. */
export const wholeEnvoy = ({ manager = '', filter, virtualHost = '', route }: EnvoyParts, weir: GrpcTarget): string =>
  `static_resources:
  listeners:
    - name: limited
      address: { socket_address: { address: 0.0.0.0, port_value: 10000 } }
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: limited
${manager}                http_filters:
                  - ${filter}
                  - name: envoy.filters.http.router
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
                route_config:
                  virtual_hosts:
                    - name: everything
                      domains: ["*"]
${virtualHost}                      routes:
                        - match: { prefix: / }
                          route: ${route}
  clusters:
    - ${grpcCluster(weir, 'weir', '      ')}
    - name: upstream # yours
      type: STRICT_DNS
      connect_timeout: 1s
      load_assignment:
        cluster_name: upstream
        endpoints:
          - lb_endpoints: [{ endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 8000 } } } }]
`;
