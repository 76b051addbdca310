import type { handleUnaryCall, sendUnaryData, UntypedServiceImplementation } from '@grpc/grpc-js';
import type { RuleTree } from '../../engine/rules/match/tree.ts';
import type { WireRequest } from '../../engine/wire/wire.ts';
import { status } from '../../h2/grpc/grpc-status.ts';
import { findRules } from '../rls/find-rules.ts';
import type { FindResponse } from '../rls/proto.ts';
import { toStatus } from '../rls/service.ts';

/** The most descriptors in a request, since the result for each takes up to a kilobyte. */
const MAX_DESCRIPTORS = 64;

/** The handlers of `weir.v1.Rules`. @param onWork  see `RequestWork` */
export function rulesHandlers(
  rules: () => RuleTree | undefined,
  onWork: (units: number) => void,
): UntypedServiceImplementation {
  const Find: handleUnaryCall<WireRequest, FindResponse> = ({ request }, callback) => {
    const tree = rules();
    if (request.descriptors.length > MAX_DESCRIPTORS)
      callback({
        code: status.INVALID_ARGUMENT,
        details: `at most ${MAX_DESCRIPTORS} descriptors, got ${request.descriptors.length}`,
      });
    else if (!tree) callback({ code: status.UNAVAILABLE, details: 'no rate limit configuration loaded' });
    else reply(() => findRules(tree, request, onWork), callback);
  };
  return { Find };
}

function reply(find: () => FindResponse, callback: sendUnaryData<FindResponse>): void {
  let found: FindResponse;
  try {
    found = find();
  } catch (cause) {
    return callback(toStatus(cause));
  }
  callback(null, found);
}
