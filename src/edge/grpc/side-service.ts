import type { Method } from '../../h2/grpc/method.ts';
import type { Overload } from '../overload/overload.ts';

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
