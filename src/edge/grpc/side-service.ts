import type { Decider } from '../../engine/decide/decide.ts';
import type { Ledger } from '../../engine/ledger/ledger.ts';
import type { Method } from '../../h2/grpc/method.ts';
import type { Overload } from '../overload/overload.ts';
import type { Extras } from '../rls/service.ts';

/** A service that is loaded when one of its methods is first called, unless it says otherwise. */
export interface SideService {
  /** The paths of its methods. */
  readonly paths: readonly string[];
  load(overload: Overload): Promise<readonly Method[]>;
  /** Its message bounds are kept only by this service's HTTP/2 server, so that server loads it at the start. */
  readonly needsH2?: boolean;
  /** Ends its streams, and refuses new ones; called before the server closes. */
  readonly close?: () => void;
}

export const methodPaths = (service: string, methods: readonly string[]): readonly string[] =>
  methods.map((method) => `/${service}/${method}`);

/** Decides calls of services whose callers do not charge their work. */
export interface ServiceDecider extends Omit<Decider, 'ledger'> {
  readonly ledger: Pick<Ledger, 'debit' | 'refund' | 'atomic'>;
  readonly onWork: (units: number) => void;
}

/** What optional services decide with. */
export interface Deciding {
  /** Spends hits in the ledger that parts may put in place of the store's. */
  readonly decider: ServiceDecider;
  /** Notified of the domain of each commit. */
  readonly onCommit: (domain: string) => void;
  readonly extras: Extras;
  /** The paths of the methods of all optional services. */
  readonly offered: () => readonly string[];
}
