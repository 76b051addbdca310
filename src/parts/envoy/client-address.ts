import {
  asObject,
  asObjects,
  check,
  type Finding,
  isTyped,
  objectsIn,
  right,
  type UncheckedObject,
  wrong,
} from './dump.ts';

/** Actions whose entry is the client's address as Envoy knows it. */
const ADDRESS_ACTIONS = ['remote_address', 'masked_remote_address'] as const;

const PROXIES = 'with N proxies before it that append to the header, xff_num_trusted_hops: N as well';

const RESTRICT =
  'let only the proxies connect, or name them in xff_trusted_cidrs of the extension envoy.http.original_ip_detection.xff';

/**
 * Checks whether clients can choose the address by which they are limited: by a header that Envoy takes it from.
 *
 * @see https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/headers#x-forwarded-for
 */
export function examineAddresses(configDump: unknown): readonly Finding[] {
  const actions = [...objectsIn(configDump)].flatMap(({ actions: found }) => asObjects(found));
  const isRaw = actions.some(({ request_headers: header }) => isForwardedFor(asObject(header).header_name));
  const findings = isRaw
    ? [
        wrong(
          'a descriptor has the whole x-forwarded-for header, to which each client can add any address: use the action remote_address instead',
        ),
      ]
    : [];
  if (!actions.some((action) => ADDRESS_ACTIONS.some((kind) => kind in action))) return findings;
  for (const listener of objectsIn(configDump)) findings.push(...examineListener(listener));
  return findings;
}

const isForwardedFor = (name: unknown): boolean => String(name).toLowerCase() === 'x-forwarded-for';

function* examineListener({ name, filter_chains, default_filter_chain: other }: UncheckedObject): Iterable<Finding> {
  for (const chain of [...asObjects(filter_chains), asObject(other)])
    for (const manager of asObjects(chain.filters).map(({ typed_config: typed }) => asObject(typed)))
      if (isLimiting(manager)) yield examineManager(`listener ${name}`, manager, isLimited(chain));
}

const isLimiting = (manager: UncheckedObject): boolean =>
  isTyped(manager, 'HttpConnectionManager') &&
  asObjects(manager.http_filters).some(({ typed_config: typed }) => isTyped(asObject(typed), 'ratelimit.v3.RateLimit'));

/** Whether only some sources reach a filter chain. */
function isLimited({ filter_chain_match: match }: UncheckedObject): boolean {
  const { source_prefix_ranges: ranges, direct_source_prefix_ranges: direct, source_type: type } = asObject(match);
  return asObjects(ranges).length + asObjects(direct).length > 0 || type === 'SAME_IP_OR_LOOPBACK';
}

function examineManager(listener: string, manager: UncheckedObject, isPrivate: boolean): Finding {
  const extensions = asObjects(manager.original_ip_detection_extensions).map(({ typed_config: one }) => asObject(one));
  const hops = Number(manager.xff_num_trusted_hops ?? 0);
  const untrusting = extensions.find((one) => asObjects(asObject(one.xff_trusted_cidrs).cidrs).length === 0);
  const isDirect = manager.use_remote_address === true && hops === 0;
  if (extensions.length === 0 && isDirect)
    return right(`${listener} takes the client's address from the connection (use_remote_address)`);
  if (extensions.length > 0 && !untrusting)
    return right(`${listener} takes the client's address from x-forwarded-for, of the proxies in xff_trusted_cidrs`);
  const header = String(untrusting?.header_name ?? 'x-forwarded-for');
  const taken = `${listener} takes the client's address from ${header}`;
  if (isPrivate) return right(`${taken}, and only some sources reach it (filter_chain_match)`);
  if (untrusting?.header_name !== undefined)
    return wrong(
      `${taken}, which a client that connects directly can forge: remove the extension and set use_remote_address: true, or ${RESTRICT}`,
    );
  if (hops === 0 && !untrusting)
    return wrong(`${taken}, which clients can forge: set use_remote_address: true; ${PROXIES}`);
  return check(`${taken} (xff_num_trusted_hops), which a client that connects directly can forge: ${RESTRICT}`);
}
