import '../../helpers/realm.ts';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readSystemCas } from '../../../src/h2/identity/system-cas.ts';
import { createAuthority } from '../../helpers/certificates.ts';
import { goCommand } from '../../helpers/tools.ts';

const folder = mkdtempSync(join(tmpdir(), 'cas-'));

const cas = Object.fromEntries(['one', 'two', 'three', 'four', 'extra'].map((name) => [name, createAuthority().cert]));
const pathOf = (name: string): string => join(folder, name);
mkdirSync(pathOf('certs'));
mkdirSync(pathOf('more'));
mkdirSync(pathOf('empty'));
writeFileSync(pathOf('one.pem'), `# a comment\n${cas.one}`);
writeFileSync(pathOf('two.pem'), `${cas.two}${cas.one}`);
writeFileSync(pathOf('certs/three.pem'), String(cas.three));
writeFileSync(pathOf('more/four.pem'), String(cas.four));
writeFileSync(pathOf('extra.pem'), String(cas.extra));
symlinkSync('three.pem', pathOf('certs/12345678.0'));
symlinkSync('../gone.pem', pathOf('certs/dangling.pem'));
writeFileSync(pathOf('certs/broken.pem'), '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n');

const system = { files: [pathOf('missing.pem'), pathOf('one.pem'), pathOf('two.pem')], directories: [pathOf('certs')] };
const none = { files: [pathOf('missing.pem')], directories: [pathOf('missing')] };

/** The names of the CAs that are found. */
const found = (env: Readonly<Record<string, string>>, locations = system): readonly string[] | undefined => {
  const text = readSystemCas(env, locations)?.toString();
  if (text === undefined) return undefined;
  expect(text.split('BEGIN CERTIFICATE').length - 1).toBe(new Set(text.split(/(?=-----BEGIN)/)).size);
  return Object.entries(cas).flatMap(([name, cert]) =>
    text.includes(cert.trim().replaceAll('\r\n', '\n')) || text.includes(cert.trim()) ? [name] : [],
  );
};

test.each<[string, Readonly<Record<string, string>>, readonly string[]]>([
  ['the first file that exists, and all files of the directories', {}, ['one', 'three']],
  [
    'the file in SSL_CERT_FILE instead of the known files',
    { SSL_CERT_FILE: pathOf('two.pem') },
    ['one', 'two', 'three'],
  ],
  [
    'the directories in SSL_CERT_DIR instead',
    { SSL_CERT_DIR: `${pathOf('empty')}:${pathOf('more')}` },
    ['one', 'four'],
  ],
  [
    'the files of both variables alone',
    { SSL_CERT_FILE: pathOf('two.pem'), SSL_CERT_DIR: pathOf('more') },
    ['one', 'two', 'four'],
  ],
  ['a directory although the file in SSL_CERT_FILE is missing', { SSL_CERT_FILE: pathOf('missing') }, ['three']],
  ['those in NODE_EXTRA_CA_CERTS as well', { NODE_EXTRA_CA_CERTS: pathOf('extra.pem') }, ['one', 'three', 'extra']],
])("the system's CAs are %s", (_what, env, expected) => {
  expect(found(env)).toEqual(expected);
});

test('there are none where no location exists, so that the built-in ones apply', () => {
  expect(found({}, none)).toBeUndefined();
});

test.each([
  ['names an empty store', { SSL_CERT_DIR: pathOf('empty') }, /^no CA certificate in .*missing\.pem, .*empty$/],
  ['names a file that cannot be read', { SSL_CERT_FILE: folder }, /EISDIR/],
])('a variable that %s is an error, not a reason for other CAs', (_what, env, message) => {
  expect(() => readSystemCas(env, none)).toThrow(message);
});

test('on this machine, the same CAs are found as Go finds', async () => {
  const program = `package main

import (
	"crypto/x509"
	"fmt"
)

func main() {
	pool, err := x509.SystemCertPool()
	if err != nil {
		panic(err)
	}
	fmt.Println(len(pool.Subjects()))
}
`;
  const file = pathOf('roots.go');
  writeFileSync(file, program);
  const env = {
    ...process.env,
    NODE_EXTRA_CA_CERTS: '',
    SSL_CERT_FILE: pathOf('two.pem'),
    SSL_CERT_DIR: `${pathOf('certs')}:${pathOf('more')}`,
  };
  const count = Number(execFileSync(await goCommand(), ['run', file], { env, encoding: 'utf8' }));
  expect(
    readSystemCas(env)
      ?.toString()
      .match(/BEGIN CERTIFICATE/g),
  ).toHaveLength(count);
});
