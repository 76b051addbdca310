import ipaddr from 'ipaddr.js';

/**
 * The one spelling of a client's address: without its port, brackets and zone, IPv4-mapped IPv6 as IPv4. Undefined if
 * the text is no address.
 *
 * @param ipv6Prefix  with fewer than 128 bits, IPv6 addresses are reduced to their network: `2001:db8::/64`
 */
export function clientAddress(text: string | undefined, ipv6Prefix = 128): string | undefined {
  const address = parse(text?.trim() ?? '');
  if (!(address instanceof ipaddr.IPv6)) return address?.toString();
  const full = address.toRFC5952String();
  return ipv6Prefix < 128 ? networkText(full, ipv6Prefix) : full;
}

/** The network of a client's address, such as `10.1.0.0/16` or `2001:db8::/32`. */
export function networkText(address: string, bits: number): string {
  if (!address.includes(':')) return `${ipaddr.IPv4.networkAddressFromCIDR(`${address}/${bits}`)}/${bits}`;
  return `${ipaddr.IPv6.networkAddressFromCIDR(`${address}/${bits}`).toRFC5952String()}/${bits}`;
}

function parse(text: string): ipaddr.IPv4 | ipaddr.IPv6 | undefined {
  const withoutPort = /^([\d.]+):\d+$/.exec(text)?.[1] ?? /^\[(.+)\](?::\d+)?$/.exec(text)?.[1] ?? text;
  const plain = withoutPort.replace(/%.*$/, '');
  if (ipaddr.IPv4.isValidFourPartDecimal(plain)) return ipaddr.IPv4.parse(plain);
  return ipaddr.IPv6.isValid(plain) ? ipaddr.process(plain) : undefined;
}
