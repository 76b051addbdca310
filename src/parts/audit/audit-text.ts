import { counted } from '../../base/texts.ts';
import { showCount } from '../../engine/algorithms/money.ts';
import type { AuditLine } from '../../operate/answers/service.ts';

/** What a change was about, and the states before and after it, in words. */
export interface AuditedChange {
  readonly domain?: string | undefined;
  readonly descriptor?: string | undefined;
  /** Granted hits, or an amount of money. */
  readonly granted?: string;
  /** `5 used → 0 used`. */
  readonly states: string;
}

/** Describes a change; each kind has its own fields. */
export function describeChange({ what, before, after }: Pick<AuditLine, 'what' | 'before' | 'after'>): AuditedChange {
  const { domain, descriptor, hits, currency } = what as Written;
  const granted = hits === undefined ? undefined : `${showCount({ currency }, hits)}${currency ? '' : ' hits'}`;
  return {
    domain,
    descriptor,
    ...(granted !== undefined && { granted }),
    states: `${stateText(before)} → ${stateText(after)}`,
  };
}

/** The fields that changes write. */
interface Written {
  readonly domain?: string;
  readonly descriptor?: string;
  readonly hits?: number;
  readonly currency?: string;
  readonly effect?: string;
  readonly until?: string;
  readonly used?: number;
  readonly recording?: boolean;
  readonly rules?: number;
  readonly hash?: string;
}

function stateText(state: unknown): string {
  if (Array.isArray(state)) return state.map(stateText).join(', ');
  const { effect, until, used, currency, recording, rules, hash } = (state ?? {}) as Written; // as changes write it
  if (effect !== undefined) return `${effect} until ${until}`;
  if (used !== undefined) return `${showCount({ currency }, used)} used`;
  if (recording !== undefined) return recording ? `recording until ${until ?? 'it is stopped'}` : 'no recording';
  if (rules !== undefined) return `${counted(Number(rules), 'rule')}, hash ${hash}`;
  return hash === undefined ? 'none' : `hash ${hash}`;
}
