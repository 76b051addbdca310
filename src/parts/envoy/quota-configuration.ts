import { printable } from '../../base/printable.ts';
import { bucketStrategy } from '../../engine/rules/match/strategy.ts';
import type { PlacedNode, Rule, RuleTree } from '../../engine/rules/match/tree.ts';
import { shown } from '../../engine/rules/read/problem.ts';
import { CommandFailed } from '../lab/commands/client.ts';
import { isConstant, needsOwnAction, rulesBelow } from './shapes.ts';
import { type GrpcTarget, headerlessKeys, headerName, patternRegex, quoted, wholeEnvoy } from './whole-envoy.ts';

interface QuotaConfigurationOptions extends GrpcTarget {
  /** Name of the proxy; if absent, a comment shows where to put it. */
  readonly proxy?: string | undefined;
}

/** A pair of a bucket id, with its key and the values that the rule matches. */
type BucketPair = Pick<PlacedNode, 'key' | 'value'>;

/**
 * Renders a whole Envoy whose rate limit quota filter uses the rules of a domain, as YAML with one matcher per rule in
 * order of precedence. The first matcher that matches counts a request.
 *
 * @throws CommandFailed if the filter can count the requests of no rule, since it requires a matcher
 */
export function quotaConfiguration(rules: RuleTree, domain: string, options: QuotaConfigurationOptions): string {
  const notes = new Set<string>(); // a set, since a pattern is found once per key that it matches
  const matchers = new Set<string>();
  const add = (pairs: readonly BucketPair[], rule: Rule): void => {
    const why = whyNot(pairs, rule);
    if (why === undefined) matchers.add(matcher(pairs, rule));
    else notes.add(printable(`${rule.path} is left out: ${why}.`));
  };
  const root = rules.domains.get(domain)?.root;
  if (root) for (const { rule, nodes } of rulesBelow(root, 'children')) add(nodes, rule); // deeper ones are narrower
  if (matchers.size === 0)
    throw new CommandFailed(
      [`no matcher is possible for ${printable(domain)}:`, ...(notes.size > 0 ? notes : ['it has no rules.'])].join(
        '\n',
      ),
    );
  const filter = quotaFilter(domain, [...matchers].join(''), options.proxy);
  return (
    [...notes].map((note) => `# ${note}\n`).join('') + wholeEnvoy({ filter, route: '{ cluster: upstream }' }, options)
  );
}

/** The reason why the filter cannot count the rule's requests, or undefined if it can. */
function whyNot(pairs: readonly BucketPair[], rule: Rule): string | undefined {
  const strategy = bucketStrategy(rule);
  if (strategy.kind === 'unsupported') return strategy.reason;
  const nameless = pairs.find((pair) => headerlessKeys.has(pair.key.text) || needsOwnAction(pair));
  const addressed = pairs.find(({ value }) => value.kind === 'addresses');
  if (addressed && !nameless) return `no matcher of headers selects the addresses ${shown(addressed.value.text)}`;
  return nameless && `no header provides ${nameless.key.text}: write a matcher with your own input`;
}

const headerInput = (key: string): string =>
  `{ "@type": type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput, header_name: ${quoted(headerName(key))} }`;

/** Whether every request has the pair, with the rule's value. */
const isFixedPair = ({ key }: BucketPair): boolean => isConstant(key.text);

function buildPredicate({ key: { text: key }, value }: BucketPair): string {
  const regex = value.kind === 'any_value' ? '.+' : patternRegex(value.text);
  const valueMatch =
    value.kind === 'exact'
      ? `{ exact: ${quoted(value.text)} }`
      : `{ safe_regex: { google_re2: {}, regex: ${quoted(regex)} } }`;
  return `{ single_predicate: { input: { name: ${quoted(key)}, typed_config: ${headerInput(key)} }, value_match: ${valueMatch} } }`;
}

const EVERY_REQUEST =
  '{ single_predicate: { input: { name: path, typed_config: { "@type": type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput, header_name: ":path" } }, value_match: { prefix: "/" } } }';

function predicates(pairs: readonly BucketPair[]): string {
  const found = pairs.filter((pair) => !isFixedPair(pair)).map(buildPredicate);
  const [only = EVERY_REQUEST] = found;
  return found.length <= 1 ? only : `{ and_matcher: { predicate: [${found.join(', ')}] } }`;
}

function matcher(pairs: readonly BucketPair[], rule: Rule): string {
  const indent = ' '.repeat(28);
  const builder = pairs.map(({ key: { text: key }, value }, at) => {
    const fixed = rule.pools?.find((one) => one.at === at)?.value ?? (value.kind === 'exact' ? value.text : undefined);
    return `${indent}        ${quoted(key)}: ${
      fixed === undefined
        ? `{ custom_value: { name: ${quoted(key)}, typed_config: ${headerInput(key)} } }`
        : `{ string_value: ${quoted(fixed)} }`
    }\n`;
  });
  const note = pairs.every(isFixedPair) ? `${indent}# matches every request: narrow it to those intended\n` : '';
  return `${note}${indent}- predicate: ${predicates(pairs)}
${indent}  on_match:
${indent}    action:
${indent}      name: ${quoted(rule.path)}
${indent}      typed_config:
${indent}        "@type": type.googleapis.com/envoy.extensions.filters.http.rate_limit_quota.v3.RateLimitQuotaBucketSettings
${indent}        bucket_id_builder:
${indent}          bucket_id_builder:
${builder.map((line) => `    ${line}`).join('')}${indent}        reporting_interval: 5s
${indent}        deny_response_settings: { grpc_status: { code: 8 } } # gRPC clients get RESOURCE_EXHAUSTED, as many retry UNAVAILABLE at once
${indent}        # until the first assignment arrives
${indent}        no_assignment_behavior: { fallback_rate_limit: { blanket_rule: ALLOW_ALL } }
${indent}        # while Weir cannot be reached for longer than RLQS_TTL; reuse_last_assignment has no effect in Envoy 1.40
${indent}        expired_assignment_behavior:
${indent}          expired_assignment_behavior_timeout: 60s
${indent}          fallback_rate_limit: { blanket_rule: ALLOW_ALL }
`;
}

function quotaFilter(domain: string, matchers: string, proxy: string | undefined): string {
  const name = `initial_metadata: [{ key: x-weir-proxy, value: ${quoted(proxy ?? 'NAME')} }]`;
  return `name: envoy.filters.http.rate_limit_quota
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.rate_limit_quota.v3.RateLimitQuotaFilterConfig
                      domain: ${quoted(domain)}
                      rlqs_server:
                        envoy_grpc: { cluster_name: weir }
                        # Names this proxy, so that it keeps its shares when it connects anew. No other proxy may have the same name, and
                        # Envoy 1.40 substitutes nothing here: write each name out.
                        ${proxy === undefined ? `# ${name}` : name}
                      # A request is counted by the first matcher that matches.
                      bucket_matchers:
                        matcher_list:
                          matchers:
${matchers}`.trimEnd();
}
