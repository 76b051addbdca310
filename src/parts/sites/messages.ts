import type { MethodDefinition, ServiceDefinition } from '@grpc/proto-loader';
import { loadProtos } from '../../protobuf/load.ts';

/** The messages of `proto/weir/v1/sites.proto`. */
export interface BorrowRequest {
  readonly site: string;
  readonly sites: readonly string[];
  readonly asks: readonly SiteAsk[];
}
export interface SiteAsk {
  readonly counter: string;
  readonly algorithm: string;
  readonly requests_per_unit: number;
  readonly window_ms: number;
  readonly burst: number;
  readonly epoch_ms: number;
  readonly taken: number;
  readonly hits: number;
}
export interface BorrowResponse {
  /** Answers, one for each ask. */
  readonly loans: readonly {
    readonly is_lent: boolean;
    readonly given: number;
    readonly now_ms: number;
    readonly used: number;
  }[];
}

const service = loadProtos(['weir/v1/sites.proto'], 'numbers')['weir.v1.Sites'] as ServiceDefinition; // a service in the file

/** `Sites/Borrow`: its path, encoder and decoder. */
export const borrowMethod = service.Borrow as MethodDefinition<BorrowRequest, BorrowResponse>; // by the file's own types
