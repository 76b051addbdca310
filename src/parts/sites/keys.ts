import { sharedAlgorithms, siteModes } from './site-share.ts';

/** The key of a limit. */
export const sites = {
  type: 'block',
  of: 'sites',
  goesWith: sharedAlgorithms,
  divides: true,
  meaning: 'several sites, each with its own counters, share the limit; requires SITE and SITE_PEERS',
} as const;

export const sitesBlock = {
  mode: {
    type: 'text',
    choices: siteModes,
    meaning:
      'escrow (the default): a site admits only its own share of the limit, so that the sites together never exceed it; optimistic: it may admit a part of max_error before others lend it',
  },
  max_error: {
    type: 'text',
    pattern: '^[0-9]+(\\.[0-9]+)?%$',
    meaning: 'mode: optimistic: by how much all sites together may exceed the limit, above 0% and up to 50%',
  },
} as const;
