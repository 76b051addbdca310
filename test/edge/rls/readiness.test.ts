import { ReadinessCheck } from '../../../src/edge/rls/health.ts';
import type { BackendHealth } from '../../../src/engine/backends/backend.ts';
import { rulesFrom } from '../../helpers/rules.ts';

const away: BackendHealth = { ready: false, reason: 'away' };
const rules = rulesFrom('domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]');
const none = { ...rules, domains: new Map(), rules: [] };

/** The reasons against readiness with these settings; each call may change the state. */
function reasonsWith(settings: Partial<ConstructorParameters<typeof ReadinessCheck>[0]> = {}) {
  const now = {
    state: { ready: true } as BackendHealth,
    rules: rules as typeof rules | undefined,
    areOpen: true,
    isClosing: false,
  };
  const none = { requiresRules: true, requiresDomain: false, requiresStore: false };
  const readiness = new ReadinessCheck(
    { ...none, ...settings },
    {
      rules: () => now.rules,
      store: {
        ledger: { health: () => now.state },
        watch: undefined,
      },
      clock: () => 0,
    },
  );
  return (changes: Partial<typeof now> = {}) => {
    Object.assign(now, changes);
    if (now.areOpen) readiness.portsOpened();
    if (now.isClosing) readiness.close();
    const { ready, reasons } = readiness.state();
    expect(ready).toBe(reasons.length === 0);
    return reasons;
  };
}

test('a service is ready once its ports are open, it has rules and has reached the counters, and remains ready in a later outage', () => {
  const reasons = reasonsWith();
  expect(reasons({ areOpen: false, state: away })).toEqual(['not all ports are open', 'store unavailable: away']);
  expect(reasons({ areOpen: true, rules: undefined, state: away })).toEqual([
    'no rate limit configuration loaded',
    'store unavailable: away',
  ]);
  expect(reasons({ rules, state: away })).toEqual(['store unavailable: away']);
  expect(reasons({ state: { ready: true } })).toEqual([]);
  expect(reasons({ state: away })).toEqual([]);
  expect(reasons({ isClosing: true })).toEqual(['shutting down']);
});

test('with REDIS_HEALTH_CHECK_ACTIVE_CONNECTION, an outage makes the service not ready', () => {
  const reasons = reasonsWith({ requiresStore: true });
  expect(reasons()).toEqual([]);
  expect(reasons({ state: away })).toEqual(['store unavailable: away']);
});

test('with FORCE_START_WITHOUT_INITIAL_CONFIG, rules may arrive later', () => {
  expect(reasonsWith({ requiresRules: false })({ rules: undefined })).toEqual([]);
});

test('rules without a domain are enough, unless HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED', () => {
  expect(reasonsWith()({ rules: none })).toEqual([]);
  expect(reasonsWith({ requiresDomain: true })({ rules: none })).toEqual(['the rules have no domain']);
});
