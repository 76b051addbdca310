import { type Child, startChild } from '../processes/child.ts';
import type { Profile } from './ledger.ts';
import type { Service } from './service.ts';

export type AttackerQuestion =
  | { readonly kind: 'prepare' | 'prepare plain'; readonly name: string }
  | { readonly kind: 'prepare valid flood'; readonly profile: Profile; readonly tls: boolean }
  | {
      readonly kind: 'attack';
      readonly ports: Service['ports'];
      readonly rulesPath: string;
      readonly durationMs: number;
    };

/** The result of an attack, on the attacker's side. */
export interface Outcome {
  readonly profile: Profile;
  /** Faults of the service, in words. */
  readonly faults: readonly string[];
  readonly elapsedMs: number;
}

/** The attacking client, in a separate process: its connections stay open until it is killed. */
export type AttackerProcess = Child<AttackerQuestion, Outcome | undefined>;

export const startAttacker = (): AttackerProcess => startChild(new URL('./attacker-process.ts', import.meta.url));
