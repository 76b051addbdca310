import { isIP } from 'node:net';
import { checkServerIdentity, type PeerCertificate } from 'node:tls';

/** How a channel of `@grpc/grpc-js` verifies its server. */
export interface GrpcServerIdentity {
  /** For `credentials.createSsl`. */
  readonly verify: { checkServerIdentity?(name: string, certificate: PeerCertificate): Error | undefined };
  /** For the channel. */
  readonly channel: { readonly 'grpc.ssl_target_name_override'?: string };
}

/** Name sent to servers that have none. */
const NO_NAME = 'address.invalid';

/**
 * The identity that a server's certificate must have. grpc-js sends the host of its target as the server's name even if
 * it is an IP address, which RFC 6066 (section 3) forbids, so that Node 26 refuses to connect. For an IP address, a
 * placeholder is sent and the certificate must be for the address.
 *
 * @param target      the channel's target: `10.0.0.7:8081`
 * @param serverName  instead of the target's host
 * @see https://github.com/grpc/grpc-node/issues/1919
 */
export function serverIdentity(target: string, serverName?: string): GrpcServerIdentity {
  const host = serverName ?? parseHost(target);
  if (isIP(host) > 0)
    return {
      verify: { checkServerIdentity: (_, certificate) => checkServerIdentity(host, certificate) },
      channel: { 'grpc.ssl_target_name_override': NO_NAME },
    };
  return { verify: {}, channel: serverName === undefined ? {} : { 'grpc.ssl_target_name_override': serverName } };
}

/** The host of `host:port`, `[::1]:port`, `dns:///host:port`, `ipv4:address:port`. */
function parseHost(target: string): string {
  const [first = ''] = target.replace(/^(dns|ipv4|ipv6):(\/\/[^/]*\/)?/, '').split(',');
  if (isIP(first) > 0) return first;
  return first.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1');
}
