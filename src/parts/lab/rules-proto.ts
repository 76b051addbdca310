import type { MethodDefinition, ServiceDefinition } from '@grpc/proto-loader';
import type { WireRequest } from '../../edge/wire/wire.ts';
import { loadProtos } from '../../protobuf/load.ts';

export const rulesService = loadProtos(['weir/v1/rules.proto'], 'numbers')['weir.v1.Rules'] as ServiceDefinition; // a service in the file

/** The path, encoders and decoders of `Find`. */
export const findRules = rulesService.Find as MethodDefinition<WireRequest, FindResponse>;

/** The answer of `Find`, as in `proto/weir/v1/rules.proto`. */
export interface FindResponse {
  /** One for each descriptor. */
  readonly found: readonly {
    readonly rule: string;
    readonly file: string;
    readonly line: number;
    readonly explanation: string;
  }[];
}
