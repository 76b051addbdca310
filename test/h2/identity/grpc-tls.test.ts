import { isIP } from 'node:net';
import type { PeerCertificate } from 'node:tls';
import { serverIdentity } from '../../../src/h2/identity/grpc-tls.ts';

/** A certificate for these names and addresses, with only the properties that are read. */
const certificateFor = (subjectaltname: string) => ({ subject: { CN: 'any' }, subjectaltname }) as PeerCertificate;

test.each([
  ['10.0.0.7:8081', '10.0.0.7'],
  ['10.0.0.7', '10.0.0.7'],
  ['[2001:db8::7]:8081', '2001:DB8::7'],
  ['2001:db8::7', '2001:DB8::7'],
  ['ipv4:10.0.0.7:8081,10.0.0.8:8081', '10.0.0.7'],
  ['ipv6:[2001:db8::7]:8081', '2001:DB8::7'],
  ['dns:///10.0.0.7:8081', '10.0.0.7'],
])('a server at %s is sent a placeholder name, and its certificate must be for %s', (target, address) => {
  const { channel, verify } = serverIdentity(target);
  expect(isIP(channel['grpc.ssl_target_name_override'] ?? '10.0.0.7')).toBe(0);
  const check = (names: string) => verify.checkServerIdentity?.('any', certificateFor(names));
  expect(check(`IP Address:${address}`)).toBeUndefined();
  expect(check('IP Address:10.9.9.9')).toMatchObject({ code: 'ERR_TLS_CERT_ALTNAME_INVALID' });
  expect(check('DNS:address.invalid')).toMatchObject({ code: 'ERR_TLS_CERT_ALTNAME_INVALID' });
});

test.each(['weir.example:8081', 'dns:///weir.example:8081', 'unix:/run/weir.sock'])(
  'the certificate of a server at %s is checked by grpc-js',
  (target) => expect(serverIdentity(target)).toEqual({ verify: {}, channel: {} }),
);

test('a configured name is used instead of the address', () =>
  expect(serverIdentity('10.0.0.7:8081', 'weir.example')).toEqual({
    verify: {},
    channel: { 'grpc.ssl_target_name_override': 'weir.example' },
  }));
