import type { Entry } from '../../engine/rules/match/match.ts';
import type { OperatorPart } from '../../serve/control/part.ts';
import type { ProxyQuota } from './answers/quotas.ts';

/** The part that gives proxies quotas, as explanations use it. */
export interface QuotasPart extends OperatorPart {
  /** The quotas that proxies have for a descriptor, those with the highest demand; none while quotas are off. */
  quotasOf(domain: string, entries: readonly Entry[]): Promise<readonly ProxyQuota[]>;
}
