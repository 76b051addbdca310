/** The domain of all calls of the attacker and the other client. */
export const DOMAIN = 'shop';

/** Rules for most attacks, with limits that ordinary calls do not reach. */
export const defaultRules = `
domain: ${DOMAIN}
descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 1000000000 }
  - key: named
    value_to_metric: true
    rate_limit: { unit: hour, requests_per_unit: 1000000000 }
  - key: held
    rate_limit: { algorithm: leaky_bucket, unit: second, requests_per_unit: 1000, max_delay: 30s }
`;
