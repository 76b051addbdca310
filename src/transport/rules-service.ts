import { type handleUnaryCall, status, type UntypedServiceImplementation } from '@grpc/grpc-js';
import { findRules } from '../rls/find-rules.ts';
import type { FindResponse } from '../rls/proto.ts';
import type { WireRequest } from '../rls/wire.ts';
import type { RuleTree } from '../rules/tree.ts';

/** The handlers of `weir.v1.Rules`. */
export function rulesHandlers(rules: () => RuleTree | undefined): UntypedServiceImplementation {
  const Find: handleUnaryCall<WireRequest, FindResponse> = ({ request }, callback) => {
    const tree = rules();
    if (!tree) callback({ code: status.UNAVAILABLE, details: 'no rate limit configuration loaded' });
    else callback(null, findRules(tree, request));
  };
  return { Find };
}
