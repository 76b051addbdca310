import type { Method } from '../../h2/grpc/method.ts';
import type { Overload } from '../overload/overload.ts';

/** A service that is loaded when one of its methods is first called. */
export interface SideService {
  /** The paths of its methods. */
  readonly paths: readonly string[];
  load(overload: Overload): Promise<readonly Method[]>;
}

export const methodPaths = (service: string, methods: readonly string[]): readonly string[] =>
  methods.map((method) => `/${service}/${method}`);
