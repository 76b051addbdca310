import { choice, commaSeparated, durationMs, host, integer, Mismatch, type Parse, port } from './kinds.ts';
import { emptyText, off, optional, type Rows, setting } from './row.ts';

/** Minimum ttl, three report intervals of Envoy. */
const MIN_TTL_MS = 15_000;
const MAX_TTL_MS = 3_600_000;

const ttlMs: Parse<number> = (written) => {
  const ms = durationMs(written);
  return typeof ms === 'number' && ms >= MIN_TTL_MS && ms <= MAX_TTL_MS
    ? ms
    : new Mismatch('a duration from 15s to 1h');
};

/** Envoy's rate limit quota service. */
const quotaRows = {
  RLQS: off(
    "serve Envoy's rate limit quota service on the gRPC port: proxies enforce quotas, their parts of the limits, themselves",
  ),
  RLQS_DOMAINS: setting(
    commaSeparated,
    '',
    'comma-separated domains whose rules are assigned to proxies as quotas; empty: all',
  ),
  RLQS_TTL: setting(
    ttlMs,
    '60s',
    'how long a quota is valid without renewal, 15s to 1h; after this time the quota of a dead proxy goes to the others',
  ),
  RLQS_UNKNOWN: setting(
    choice('allow', 'deny'),
    'allow',
    'what proxies do with requests of buckets without an applicable rule',
  ),
  RLQS_MAX_BYTES: optional(
    integer(2 ** 16, 2 ** 40, 'bytes'),
    "memory for the quotas of all buckets, with counters in memory: buckets and proxies beyond it get no assignment. Unset: a sixteenth of V8's heap limit, 128 MiB at most",
  ),
} as const satisfies Rows;

/** Another site, and the address of its instances. */
interface SitePeer {
  readonly site: string;
  /** `host:port` */
  readonly address: string;
}

/** Maximum number of sites, which bounds a counter's state of three numbers per site. */
const MAX_SITES = 8;
const SITE_NAME = /^[a-z0-9][a-z0-9.-]{0,62}$/;

const siteName: Parse<string> = (written) =>
  written === '' || SITE_NAME.test(written) ? written : new Mismatch('a name of lower-case letters, digits, - and .');

const sitePeers: Parse<readonly SitePeer[]> = (written) => {
  if (written === '') return [];
  const peers = written.split(',').map((one) => {
    const [site = '', address = ''] = one.trim().split('=');
    return { site, address };
  });
  const areValid = peers.every(({ site, address }) => SITE_NAME.test(site) && /^[^\s/]+:\d{1,5}$/.test(address));
  const areDistinct = new Set(peers.map(({ site }) => site)).size === peers.length;
  if (areValid && areDistinct && peers.length < MAX_SITES) return peers;
  return new Mismatch(`1 to ${MAX_SITES - 1} other sites such as eu=weir.eu.example:8091,us=weir.us.example:8091`);
};

/** Names, separated by commas. */
const siteNames: Parse<readonly string[]> = (written) => {
  const names = commaSeparated(written);
  const isValid = names.every((name) => SITE_NAME.test(name)) && new Set(names).size === names.length;
  return isValid ? names : new Mismatch('names of other sites such as us,ap');
};

/** Kubernetes sets SITE_PORT to a URL in pods beside a Service `site`, which is not meant. */
const sitePort: Parse<number> = (written) => port(/^\w+:\/\//.test(written) ? '8091' : written);

const siteRows = {
  SITE: setting(
    siteName,
    '',
    'name of this site if several sites share limits (`sites` in rules); empty: there are no other sites',
  ),
  SITE_PEERS: setting(
    sitePeers,
    '',
    'the other sites: name=host:port, separated by commas; each site names all others',
  ),
  SITE_LOST: setting(
    siteNames,
    '',
    'sites of SITE_PEERS that are lost and no longer run: the others divide their parts of shared limits',
  ),
  SITE_HOST: setting(host, '0.0.0.0', 'address to listen on for other sites'),
  SITE_PORT: setting(sitePort, '8091', 'port to listen on for other sites'),
  SITE_TLS_CERT: emptyText('certificate (PEM) of this site as server and client; empty: sites exchange plain text'),
  SITE_TLS_KEY: emptyText('its private key (PEM)'),
  SITE_TLS_CACERT: emptyText('CA (PEM) to which the certificates of all sites must chain'),
} as const satisfies Rows;

/** How limits are shared with proxies and other sites. */
export const sharingGroups = {
  'Quotas for proxies': quotaRows,
  'Several sites': siteRows,
};
