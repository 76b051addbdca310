import type { FilterRow } from '../../helpers/recorded-calls.ts';

const type = (name: string) => ({ '@type': `type.googleapis.com/${name}` });
const PER_ROUTE = type('envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute');
const NAME = 'envoy.filters.http.ratelimit';

/** What `typed_per_filter_config` says of the rate limit filter. */
const own = (fields: object) => ({ typed_per_filter_config: { [NAME]: { ...PER_ROUTE, ...fields } } });
const disabled = {
  typed_per_filter_config: { [NAME]: { ...type('envoy.config.route.v3.FilterConfig'), disabled: true } },
};

const header = (name: string, more: object = {}) => ({
  request_headers: { header_name: `x-${name}`, descriptor_key: name, ...more },
});
const fixed = (value: string, more: object = {}) => ({ generic_key: { descriptor_value: value, ...more } });
const by = (...actions: readonly object[]) => ({ actions });
const USER = by(header('user'));
const lists = (...limits: readonly object[]) => ({ rate_limits: limits });
const listed = (...limits: readonly object[]) => ({ route: { cluster: 'upstream', rate_limits: limits } });
const FORMATTED = (format: string) =>
  own(lists({ ...by(fixed('x')), hits_addend: { format }, apply_on_stream_done: true }));
const percent = (key: string, numerator: number) => ({ default_value: { numerator }, runtime_key: key });

const user = (...values: readonly string[]) => values.map((value) => ['x-user', value] as const);
const LATE = { ...USER, apply_on_stream_done: true };
const RELEASE = { ...LATE, hits_addend: { number: 1, is_negative_hits: true } };

const saved = {
  name: 'envoy.filters.http.header_to_metadata',
  typed_config: {
    ...type('envoy.extensions.filters.http.header_to_metadata.v3.Config'),
    request_rules: [
      {
        header: 'x-user',
        on_header_present: { metadata_namespace: 'weir', key: 'x-user', type: 'STRING' },
        remove: false,
      },
      {
        header: ':path',
        on_header_present: { metadata_namespace: 'weir', key: ':path', type: 'STRING' },
        remove: false,
      },
    ],
  },
};
const metadata = (key: string, more: object = {}) => ({
  metadata: { descriptor_key: key, metadata_key: { key: 'weir', path: [{ key }] }, ...more },
});
/** Filter state and metadata that a request has before the filter. */
const setMetadata = (value: object) => ({
  name: 'envoy.filters.http.set_metadata',
  typed_config: {
    ...type('envoy.extensions.filters.http.set_metadata.v3.Config'),
    metadata: [{ metadata_namespace: 'weir', value }],
  },
});
const state = {
  name: 'envoy.filters.http.set_filter_state',
  typed_config: {
    ...type('envoy.extensions.filters.http.set_filter_state.v3.Config'),
    on_request_headers: [
      {
        object_key: 'weir.user',
        factory_key: 'envoy.string',
        format_string: { text_format_source: { inline_string: '%REQ(x-user)%' }, omit_empty_values: true },
      },
      {
        object_key: 'weir.path',
        factory_key: 'envoy.string',
        format_string: { text_format_source: { inline_string: '%REQ(:path)%' }, omit_empty_values: true },
        skip_if_empty: true,
      },
    ],
  },
};
const stateOf = (key: string) => ({
  extension: {
    name: 'envoy.rate_limit_descriptors.expr',
    typed_config: {
      ...type('envoy.extensions.rate_limit_descriptors.expr.v3.Descriptor'),
      descriptor_key: key,
      text: `filter_state['weir.${key}']`,
    },
  },
});
const limited = (limit: object) => ({
  before: [setMetadata({ limit })],
  route: own(
    lists({ ...USER, limit: { dynamic_metadata: { metadata_key: { key: 'weir', path: [{ key: 'limit' }] } } } }),
  ),
});
const matchesAddress = (more: object = {}) => ({
  remote_address_match: {
    descriptor_value: 'local',
    address_matcher: { ranges: [{ address_prefix: '127.0.0.0', prefix_len: 8 }] },
    ...more,
  },
});
const exact = (name: string, value: string) => ({ name, string_match: { exact: value } });

/** The configurations of Envoy 1.40 whose calls are known, by the part of the configuration that is shown. */
export const filterTable: readonly FilterRow[] = [
  // which list
  { title: 'a list of a route', route: listed(USER) },
  { title: 'a list of a virtual host', host: lists(USER) },
  { title: "a route's list replaces its virtual host's", host: lists(by(fixed('host'))), route: listed(USER) },
  {
    title: 'include_vh_rate_limits adds both',
    host: lists(by(fixed('host'))),
    route: { route: { cluster: 'upstream', include_vh_rate_limits: true, ...lists(USER) } },
  },
  { title: 'lists are in the action of the route', route: { route: { cluster: 'upstream', ...lists(USER) } } },
  { title: 'RateLimitPerRoute of a route', route: own(lists(USER)) },
  { title: 'RateLimitPerRoute of a virtual host', host: own(lists(USER)) },
  { title: 'RateLimitPerRoute of a route configuration', routes: own(lists(USER)) },
  {
    title: "a route's RateLimitPerRoute replaces that of its virtual host",
    host: own(lists(by(fixed('host')))),
    route: own(lists(USER)),
  },
  {
    title: 'an empty RateLimitPerRoute of a route hides that of its virtual host',
    host: own(lists(by(fixed('host')))),
    route: own({}),
  },
  {
    title: 'RateLimitPerRoute replaces lists of its route and virtual host',
    host: lists(by(fixed('host'))),
    route: { route: { cluster: 'upstream', ...lists(by(fixed('route'))) }, ...own(lists(USER)) },
  },
  {
    title: "a virtual host's RateLimitPerRoute replaces a route's list",
    host: own(lists(USER)),
    route: { route: { cluster: 'upstream', ...lists(by(fixed('route'))) } },
  },
  { title: "the filter's own list", filter: lists(USER) },
  {
    title: "the filter's own list beside a route's",
    filter: lists(USER),
    route: { route: { cluster: 'upstream', ...lists(by(fixed('route'))) } },
  },
  {
    title: "the filter's own list beside RateLimitPerRoute",
    filter: lists(USER),
    route: own(lists(by(fixed('route')))),
  },
  {
    title: "the filter's own list beside a RateLimitPerRoute with a domain only",
    filter: lists(USER),
    route: own({ domain: 'other' }),
  },
  {
    title: 'a domain of RateLimitPerRoute with the list of the route',
    route: { route: { cluster: 'upstream', ...lists(USER) }, ...own({ domain: 'other' }) },
  },
  ...(['OVERRIDE', 'INCLUDE', 'IGNORE'] as const).flatMap((vh_rate_limits) => [
    {
      title: `vh_rate_limits: ${vh_rate_limits}, with a list of the route`,
      host: lists(by(fixed('host'))),
      route: { route: { cluster: 'upstream', ...lists(USER) }, ...own({ vh_rate_limits }) },
    },
    {
      title: `vh_rate_limits: ${vh_rate_limits}, without a list of the route`,
      host: lists(by(fixed('host'))),
      route: own({ vh_rate_limits }),
    },
  ]),
  {
    title: 'vh_rate_limits: INCLUDE with a list of its own',
    host: lists(by(fixed('host'))),
    route: own({ vh_rate_limits: 'INCLUDE', ...lists(USER) }),
  },
  ...(['OVERRIDE_POLICY', 'INCLUDE_POLICY', 'IGNORE_POLICY'] as const).map((override_option) => ({
    title: `override_option: ${override_option}`,
    host: lists(by(fixed('host'))),
    route: { route: { cluster: 'upstream', ...lists(USER) }, ...own({ override_option }) },
  })),
  {
    title: 'RateLimitPerRoute of the chosen weighted cluster',
    route: {
      route: {
        weighted_clusters: { clusters: [{ name: 'upstream', weight: 1, ...own(lists(USER)) }] },
        ...lists(by(fixed('route'))),
      },
    },
  },
  // when
  { title: 'no list' },
  { title: 'a list whose header is missing', route: listed(by(header('tenant'))) },
  { title: 'a filter of another stage', filter: { stage: 1 }, route: listed(USER) },
  {
    title: "a route's list of another stage hides its virtual host's",
    host: lists(by(fixed('host'))),
    route: listed({ ...USER, stage: 1 }),
  },
  {
    title: 'a filter and a list of stage 1',
    filter: { stage: 1 },
    route: { route: { cluster: 'upstream', ...lists({ ...USER, stage: 1 }, by(fixed('zero'))) } },
  },
  { title: 'a filter of stage 1 with RateLimitPerRoute', filter: { stage: 1 }, route: own(lists(USER)) },
  {
    title: 'direct_response with a list of the virtual host',
    host: lists(LATE, by(fixed('x'))),
    route: { direct_response: { status: 200 } },
  },
  {
    title: 'direct_response with RateLimitPerRoute',
    route: { direct_response: { status: 200 }, ...own(lists(USER, RELEASE)) },
  },
  { title: 'redirect with RateLimitPerRoute', route: { redirect: { path_redirect: '/x' }, ...own(lists(USER)) } },
  {
    title: "direct_response with the filter's own list",
    filter: lists(USER, RELEASE),
    route: { direct_response: { status: 200 } },
  },
  { title: 'no route', host: { routes: [], ...own(lists(USER)) } },
  { title: "no route, with the filter's own list", filter: lists(USER, RELEASE), host: { routes: [] } },
  { title: 'filter_enabled of 0 %', filter: { filter_enabled: percent('a.b', 0) }, route: own(lists(USER)) },
  { title: 'filter_enforced of 0 %', filter: { filter_enforced: percent('a.c', 0) }, route: listed(USER) },
  { title: 'request_type: internal', filter: { request_type: 'internal' }, route: listed(USER) },
  {
    title: 'request_type: internal, with a late descriptor',
    filter: { request_type: 'internal' },
    route: own(lists(USER, RELEASE)),
  },
  { title: 'request_type: external', filter: { request_type: 'external' }, route: listed(USER) },
  {
    title: 'request_type: external, where addresses are not used',
    filter: { request_type: 'external' },
    manager: { use_remote_address: false },
    route: listed(USER),
  },
  { title: 'a disabled item of http_filters', item: { disabled: true }, route: listed(USER) },
  { title: 'a disabled item that RateLimitPerRoute enables', item: { disabled: true }, route: own(lists(USER)) },
  { title: 'FilterConfig disabled on a route', route: { route: { cluster: 'upstream', ...lists(USER) }, ...disabled } },
  { title: 'FilterConfig disabled on a virtual host', host: { ...lists(USER), ...disabled } },
  {
    title: 'FilterConfig disabled on a virtual host, and RateLimitPerRoute on its route',
    host: disabled,
    route: own(lists(USER)),
  },
  // hits
  { title: 'hits_addend in a list of a route', route: listed({ ...USER, hits_addend: { number: 5 } }) },
  { title: 'hits_addend in a list of a virtual host', host: lists({ ...USER, hits_addend: { number: 5 } }) },
  { title: 'hits_addend in RateLimitPerRoute', route: own(lists({ ...USER, hits_addend: { number: 5 } })) },
  { title: "hits_addend in the filter's own list", filter: lists({ ...USER, hits_addend: { number: 5 } }) },
  { title: 'hits_addend of 0', route: own(lists({ ...USER, hits_addend: { number: 0 } })) },
  { title: 'negative hits in a list of a route', route: listed(USER, RELEASE) },
  { title: 'negative hits in RateLimitPerRoute', route: own(lists(USER, RELEASE)) },
  { title: 'a late descriptor in a list of a route', route: listed(USER, LATE) },
  { title: 'only a late descriptor', route: own(lists(RELEASE)) },
  ...[
    '%RESP(x-cost)%',
    '%RESP(x-none)%',
    '%RESP(x-huge)%',
    '%RESP(x-text)%',
    '%RESP(x-part)%',
    '%RESP(x-power)%',
    '%RESP(x-below)%',
    '%RESPONSE_CODE%',
    '%BYTES_SENT%',
    '%REQ(X-USER)%',
  ].map((format) => ({ title: `format: ${format}`, route: FORMATTED(format) })),
  {
    title: 'a format before the response',
    route: own(lists({ ...USER, hits_addend: { format: '%REQ(X-COST)%' } }, by(fixed('x')))),
    headers: [...user('ann'), ['x-cost', '12']],
  },
  {
    title: 'a format before the response, without its header',
    route: own(lists({ ...USER, hits_addend: { format: '%REQ(X-COST)%' } }, by(fixed('x')))),
  },
  // the late request
  {
    title: 'prefix_rewrite',
    path: '/old/a?q=1',
    route: {
      match: { prefix: '/old' },
      route: { cluster: 'upstream', prefix_rewrite: '/new' },
      ...own(
        lists(by({ request_headers: { header_name: ':path', descriptor_key: 'path' } }), {
          ...by({ request_headers: { header_name: ':path', descriptor_key: 'path' } }),
          apply_on_stream_done: true,
        }),
      ),
    },
  },
  {
    title: 'regex_rewrite',
    path: '/old/a',
    route: {
      route: { cluster: 'upstream', regex_rewrite: { pattern: { regex: '^/old' }, substitution: '/new' } },
      ...own(
        lists({
          ...by({ request_headers: { header_name: ':path', descriptor_key: 'path' } }),
          apply_on_stream_done: true,
        }),
      ),
    },
  },
  {
    title: 'x-envoy-original-path after a rewrite',
    path: '/old/a',
    route: {
      match: { prefix: '/old' },
      route: { cluster: 'upstream', prefix_rewrite: '/new' },
      ...own(
        lists({
          ...by({ request_headers: { header_name: 'x-envoy-original-path', descriptor_key: 'path' } }),
          apply_on_stream_done: true,
        }),
      ),
    },
  },
  {
    title: 'host_rewrite_literal',
    route: {
      route: { cluster: 'upstream', host_rewrite_literal: 'inner' },
      ...own(
        lists(by({ request_headers: { header_name: ':authority', descriptor_key: 'host' } }), {
          ...by({ request_headers: { header_name: ':authority', descriptor_key: 'host' } }),
          apply_on_stream_done: true,
        }),
      ),
    },
  },
  {
    title: 'request_headers_to_remove of a route',
    route: { request_headers_to_remove: ['x-user'], ...own(lists(USER, RELEASE)) },
  },
  {
    title: 'request_headers_to_remove of a virtual host',
    host: { request_headers_to_remove: ['x-user'] },
    route: own(lists(USER, RELEASE)),
  },
  {
    title: 'request_headers_to_remove of a route configuration',
    routes: { request_headers_to_remove: ['x-user'] },
    route: own(lists(USER, RELEASE)),
  },
  {
    title: 'request_headers_to_add appends',
    route: { request_headers_to_add: [{ header: { key: 'x-user', value: 'proxy' } }], ...own(lists(USER, RELEASE)) },
  },
  {
    title: 'request_headers_to_add overwrites',
    route: {
      request_headers_to_add: [
        { header: { key: 'x-user', value: 'proxy' }, append_action: 'OVERWRITE_IF_EXISTS_OR_ADD' },
      ],
      ...own(lists(USER, RELEASE)),
    },
  },
  {
    title: 'request_headers_to_add of a missing header',
    route: {
      request_headers_to_add: [{ header: { key: 'x-tenant', value: 'proxy' } }],
      ...own(lists(by(header('tenant')), { ...by(header('tenant')), apply_on_stream_done: true })),
    },
  },
  {
    title: 'metadata saved before the route changes the request',
    path: '/old/a',
    before: [saved],
    route: {
      match: { prefix: '/old' },
      route: { cluster: 'upstream', prefix_rewrite: '/new' },
      request_headers_to_remove: ['x-user'],
      ...own(
        lists(by(metadata('x-user'), metadata(':path')), {
          ...by(metadata('x-user'), metadata(':path')),
          apply_on_stream_done: true,
        }),
      ),
    },
  },
  {
    title: 'metadata saved from an empty header',
    before: [saved],
    headers: user(''),
    route: own(lists(by(metadata('x-user')), by(header('user')))),
  },
  {
    title: 'metadata saved from a repeated header',
    before: [saved],
    headers: user('ann', 'bob'),
    route: own(lists(by(metadata('x-user')), by(header('user')))),
  },
  {
    title: 'filter state saved before the route changes the request',
    path: '/old/a',
    headers: user('ann', 'bob'),
    before: [state],
    route: {
      match: { prefix: '/old' },
      route: { cluster: 'upstream', prefix_rewrite: '/new' },
      request_headers_to_remove: ['x-user'],
      ...own(
        lists(by(stateOf('user'), stateOf('path')), {
          ...by(stateOf('user'), stateOf('path')),
          apply_on_stream_done: true,
        }),
      ),
    },
  },
  {
    title: 'filter state of an absent header',
    headers: [],
    before: [state],
    route: own(lists(by(stateOf('user')), by(stateOf('path')))),
  },
  {
    title: 'filter state of an empty header',
    headers: user(''),
    before: [state],
    route: own(lists(by(stateOf('user')), by(header('user')))),
  },
  {
    title: 'request_headers_to_remove of a weighted cluster',
    route: {
      route: {
        weighted_clusters: { clusters: [{ name: 'upstream', weight: 1, request_headers_to_remove: ['x-user'] }] },
      },
      ...own(lists(USER, RELEASE)),
    },
  },
  // actions
  { title: 'an empty header', headers: user(''), route: listed(USER) },
  { title: 'a repeated header', headers: user('ann', 'bob'), route: listed(USER) },
  {
    title: 'a repeated header in header_value_match',
    headers: user('ann', 'bob'),
    route: listed(
      by({ header_value_match: { descriptor_value: 'is bob', headers: [exact('x-user', 'bob')] } }),
      by({ header_value_match: { descriptor_value: 'is list', headers: [exact('x-user', 'ann,bob')] } }),
    ),
  },
  {
    title: 'skip_if_absent',
    route: listed(
      by(header('tenant', { skip_if_absent: true }), header('user')),
      by(header('tenant', { skip_if_absent: true })),
    ),
  },
  { title: 'skip_if_absent, for the only entry', route: listed(by(header('tenant', { skip_if_absent: true }))) },
  { title: 'text in UTF-8', headers: user(Buffer.from('Zoë').toString('latin1')), route: listed(USER) },
  {
    title: 'query_parameters',
    path: '/?a=x%20y+z&b&c=&a=2',
    route: listed(
      ...['a', 'b', 'c', 'd', 'A'].map((name) =>
        by({ query_parameters: { query_parameter_name: name, descriptor_key: name } }),
      ),
    ),
  },
  {
    title: 'query_parameters in UTF-8',
    path: '/?a=%C3%AB&b=%zz',
    route: listed(
      ...['a', 'b'].map((name) => by({ query_parameters: { query_parameter_name: name, descriptor_key: name } })),
    ),
  },
  {
    title: 'query_parameter_value_match',
    path: '/?a=x+y',
    route: listed(
      by({
        query_parameter_value_match: {
          descriptor_value: 'v',
          query_parameters: [{ name: 'a', string_match: { exact: 'x+y' } }],
        },
      }),
      by({
        query_parameter_value_match: {
          descriptor_value: 'v',
          descriptor_key: 'k',
          expect_match: false,
          query_parameters: [{ name: 'b', present_match: true }],
        },
      }),
    ),
  },
  { title: 'remote_address', route: listed(by({ remote_address: {} })) },
  { title: 'masked_remote_address', route: listed(by({ masked_remote_address: { v4_prefix_mask_len: 16 } })) },
  {
    title: 'remote_address_match',
    route: listed(
      by(matchesAddress()),
      by(matchesAddress({ descriptor_key: 'k' })),
      by(
        matchesAddress({
          address_matcher: { ranges: [{ address_prefix: '10.0.0.0', prefix_len: 8 }], invert_match: true },
        }),
      ),
      by(matchesAddress({ descriptor_value: '%REQ(X-USER)%' })),
    ),
  },
  {
    title: 'source_cluster and destination_cluster',
    route: listed(by({ source_cluster: {} }, { destination_cluster: {} })),
  },
  {
    title: 'generic_key, which is not formatted',
    route: listed(by(fixed('%REQ(X-USER)%')), by(fixed('v', { descriptor_key: 'k' }))),
  },
  {
    title: 'metadata of the request',
    before: [setMetadata({ text: 'a', number: 5, flag: true, empty: '' })],
    route: listed(
      ...['text', 'number', 'flag', 'empty', 'none'].map((key) => by(metadata(key))),
      by(metadata('number', { default_value: 'other' })),
      by(metadata('none', { default_value: 'other' })),
      by(metadata('none', { skip_if_absent: true }), fixed('x')),
    ),
  },
  {
    title: 'metadata of the route',
    route: {
      metadata: { filter_metadata: { weir: { plan: 'gold' } } },
      ...listed(by(metadata('plan', { source: 'ROUTE_ENTRY' }))),
    },
  },
  {
    title: 'an extension with CEL',
    route: listed(
      by({
        extension: {
          name: 'envoy.rate_limit_descriptors.expr',
          typed_config: {
            ...type('envoy.extensions.rate_limit_descriptors.expr.v3.Descriptor'),
            descriptor_key: 'k',
            text: "request.headers['x-user']",
          },
        },
      }),
    ),
  },
  {
    title: 'the tool of a request of MCP',
    before: [{ name: 'envoy.filters.http.mcp', typed_config: type('envoy.extensions.filters.http.mcp.v3.Mcp') }],
    headers: [...user('ann'), ['accept', 'application/json, text/event-stream']],
    body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'search', arguments: {} } },
    route: own(
      lists(
        by(header('user'), {
          metadata: {
            descriptor_key: 'tool',
            metadata_key: { key: 'envoy.filters.http.mcp', path: [{ key: 'params' }, { key: 'name' }] },
          },
        }),
      ),
    ),
  },
  { title: 'a limit', ...limited({ requests_per_unit: 7, unit: 'HOUR' }) },
  { title: 'a limit with a unit in lower case', ...limited({ requests_per_unit: 7, unit: 'hour' }) },
  {
    title: 'a limit of an absent object',
    route: own(
      lists({ ...USER, limit: { dynamic_metadata: { metadata_key: { key: 'none', path: [{ key: 'limit' }] } } } }),
    ),
  },
  { title: 'one descriptor twice', route: listed(USER, USER) },
];

type Metadata = Readonly<Record<string, unknown>>;

/** The metadata of a row's request and route, by namespace. */
export function metadataOf({
  body,
  before = [],
  headers = [['x-user', 'ann']],
  path = '/',
  route = {},
}: FilterRow): Metadata {
  const { metadata: ofRoute } = route as { readonly metadata?: { readonly filter_metadata: Metadata } }; // of this table
  if (ofRoute) return ofRoute.filter_metadata;
  if (body) return { 'envoy.filters.http.mcp': body };
  if (before.includes(saved)) {
    const value = headers.map(([, one]) => one).join(',');
    return { weir: { ...(value !== '' && { 'x-user': value }), ':path': path } };
  }
  for (const { typed_config: config } of before as readonly { readonly typed_config: object }[])
    if ('metadata' in config) return { weir: (config.metadata as readonly { readonly value: object }[])[0]?.value };
  return {};
}

/** What Envoy sends for each row, as `callText` writes it: before the request is forwarded, and after its stream. */
export const sentCalls: Readonly<Record<string, readonly [early?: string | undefined, late?: string]>> = {
  'a list of a route': ['user=ann'],
  'a list of a virtual host': ['user=ann'],
  "a route's list replaces its virtual host's": ['user=ann'],
  'include_vh_rate_limits adds both': ['user=ann | generic_key=host'],
  'lists are in the action of the route': ['user=ann'],
  'RateLimitPerRoute of a route': ['user=ann'],
  'RateLimitPerRoute of a virtual host': ['user=ann'],
  'RateLimitPerRoute of a route configuration': ['user=ann'],
  "a route's RateLimitPerRoute replaces that of its virtual host": ['user=ann'],
  'an empty RateLimitPerRoute of a route hides that of its virtual host': [],
  'RateLimitPerRoute replaces lists of its route and virtual host': ['user=ann'],
  "a virtual host's RateLimitPerRoute replaces a route's list": ['user=ann'],
  "the filter's own list": ['user=ann'],
  "the filter's own list beside a route's": ['user=ann'],
  "the filter's own list beside RateLimitPerRoute": ['generic_key=route'],
  "the filter's own list beside a RateLimitPerRoute with a domain only": ['other: user=ann'],
  'a domain of RateLimitPerRoute with the list of the route': ['other: user=ann'],
  'vh_rate_limits: OVERRIDE, with a list of the route': ['user=ann'],
  'vh_rate_limits: OVERRIDE, without a list of the route': ['generic_key=host'],
  'vh_rate_limits: INCLUDE, with a list of the route': ['user=ann | generic_key=host'],
  'vh_rate_limits: INCLUDE, without a list of the route': ['generic_key=host'],
  'vh_rate_limits: IGNORE, with a list of the route': ['user=ann'],
  'vh_rate_limits: IGNORE, without a list of the route': [],
  'vh_rate_limits: INCLUDE with a list of its own': ['user=ann'],
  'override_option: OVERRIDE_POLICY': ['user=ann'],
  'override_option: INCLUDE_POLICY': ['user=ann'],
  'override_option: IGNORE_POLICY': ['user=ann'],
  'RateLimitPerRoute of the chosen weighted cluster': ['user=ann'],
  'no list': [],
  'a list whose header is missing': [],
  'a filter of another stage': [],
  "a route's list of another stage hides its virtual host's": [],
  'a filter and a list of stage 1': ['user=ann'],
  'a filter of stage 1 with RateLimitPerRoute': ['user=ann'],
  'direct_response with a list of the virtual host': [],
  'direct_response with RateLimitPerRoute': [],
  'redirect with RateLimitPerRoute': [],
  "direct_response with the filter's own list": [],
  'no route': [],
  "no route, with the filter's own list": [],
  'filter_enabled of 0 %': [],
  'filter_enforced of 0 %': ['user=ann'],
  'request_type: internal': [],
  'request_type: internal, with a late descriptor': [],
  'request_type: external': ['user=ann'],
  'request_type: external, where addresses are not used': ['user=ann'],
  'a disabled item of http_filters': [],
  'a disabled item that RateLimitPerRoute enables': ['user=ann'],
  'FilterConfig disabled on a route': [],
  'FilterConfig disabled on a virtual host': [],
  'FilterConfig disabled on a virtual host, and RateLimitPerRoute on its route': ['user=ann'],
  'hits_addend in a list of a route': ['user=ann'],
  'hits_addend in a list of a virtual host': ['user=ann'],
  'hits_addend in RateLimitPerRoute': ['user=ann *5'],
  "hits_addend in the filter's own list": ['user=ann *5'],
  'hits_addend of 0': ['user=ann *0'],
  'negative hits in a list of a route': ['user=ann', 'user=ann'],
  'negative hits in RateLimitPerRoute': ['user=ann', 'user=ann *-1'],
  'a late descriptor in a list of a route': ['user=ann', 'user=ann'],
  'only a late descriptor': [undefined, 'user=ann *-1'],
  'format: %RESP(x-cost)%': [undefined, 'generic_key=x *37'],
  'format: %RESP(x-none)%': [],
  'format: %RESP(x-huge)%': [],
  'format: %RESP(x-text)%': [],
  'format: %RESP(x-part)%': [undefined, 'generic_key=x'],
  'format: %RESP(x-power)%': [undefined, 'generic_key=x *1000'],
  'format: %RESP(x-below)%': [],
  'format: %RESPONSE_CODE%': [undefined, 'generic_key=x *200'],
  'format: %BYTES_SENT%': [undefined, 'generic_key=x *4'],
  'format: %REQ(X-USER)%': [],
  'a format before the response': ['user=ann *12 | generic_key=x'],
  'a format before the response, without its header': ['generic_key=x'],
  prefix_rewrite: ['path=/old/a?q=1', 'path=/new/a?q=1'],
  regex_rewrite: [undefined, 'path=/new/a'],
  'x-envoy-original-path after a rewrite': [undefined, 'path=/old/a'],
  host_rewrite_literal: ['host=shop.example', 'host=inner'],
  'request_headers_to_remove of a route': ['user=ann'],
  'request_headers_to_remove of a virtual host': ['user=ann'],
  'request_headers_to_remove of a route configuration': ['user=ann'],
  'request_headers_to_add appends': ['user=ann', 'user=ann *-1'],
  'request_headers_to_add overwrites': ['user=ann', 'user=proxy *-1'],
  'request_headers_to_add of a missing header': [undefined, 'tenant=proxy'],
  'metadata saved before the route changes the request': ['x-user=ann,:path=/old/a', 'x-user=ann,:path=/old/a'],
  'metadata saved from an empty header': ['user='],
  'metadata saved from a repeated header': ['x-user=ann,bob | user=ann'],
  'filter state saved before the route changes the request': ['user=ann,path=/old/a', 'user=ann,path=/old/a'],
  'filter state of an absent header': ['user= | path=/'],
  'filter state of an empty header': ['user= | user='],
  'request_headers_to_remove of a weighted cluster': ['user=ann'],
  'an empty header': ['user='],
  'a repeated header': ['user=ann'],
  'a repeated header in header_value_match': ['header_match=is bob'],
  skip_if_absent: ['user=ann | '],
  'skip_if_absent, for the only entry': [''],
  'text in UTF-8': ['user=Zoë'],
  query_parameters: ['a=x y+z | b= | c='],
  'query_parameters in UTF-8': ['a=ë | b=%zz'],
  query_parameter_value_match: ['query_match=v | k=v'],
  remote_address: ['remote_address=127.0.0.1'],
  masked_remote_address: ['masked_remote_address=127.0.0.0/16'],
  remote_address_match: [
    'remote_address_match=local | k=local | remote_address_match=local | remote_address_match=ann',
  ],
  'source_cluster and destination_cluster': ['source_cluster=edge,destination_cluster=upstream'],
  'generic_key, which is not formatted': ['generic_key=%REQ(X-USER)% | k=v'],
  'metadata of the request': ['text=a | number=other | none=other | generic_key=x'],
  'metadata of the route': ['plan=gold'],
  'an extension with CEL': ['k=ann'],
  'the tool of a request of MCP': ['user=ann,tool=search'],
  'a limit': ['user=ann limit 7/3'],
  'a limit with a unit in lower case': ['user=ann'],
  'a limit of an absent object': ['user=ann'],
  'one descriptor twice': ['user=ann | user=ann'],
};
