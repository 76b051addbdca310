import { PROXY_HEADER } from '../../engine/wire/wire.ts';
import type { Method, MethodLimits } from '../../h2/grpc/method.ts';
import type { Overload } from '../overload/overload.ts';
import { type BucketAction, writeBucketActions } from '../rlqs/messages.ts';
import type { QuotaService } from '../rlqs/quota-service.ts';
import { MAX_REQUEST_BYTES } from './grpc-server.ts';

/** Limits for reports that name all buckets of a proxy in one message, as the first answer may do too. */
const quotaLimits: MethodLimits = {
  maxMessageBytes: MAX_REQUEST_BYTES,
  maxUnreadBytes: 2 * MAX_REQUEST_BYTES,
  maxUnreadMessages: 256,
  maxEarlyMessages: Number.POSITIVE_INFINITY,
};

/** Called when the call is over. */
const nothingFollows = { message: () => {}, end: () => {} };

/**
 * The method of `envoy.service.rate_limit_quota.v3.RateLimitQuotaService`. A stream is refused at the limit on calls in
 * flight, and reports are handled in slices.
 */
export const quotasMethod = (quotas: QuotaService, overload: Overload): Method<Buffer, readonly BucketAction[]> => ({
  kind: 'bidi stream',
  path: '/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas',
  decode: (bytes) => bytes,
  encode: writeBucketActions,
  limits: quotaLimits,
  handle(call) {
    const refusal = overload.refusal();
    if (refusal) {
      call.fail(refusal.code, refusal.details);
      return nothingFollows;
    }
    const receiver = quotas.open(call, call.header(PROXY_HEADER));
    call.onGone(() => receiver.close());
    return receiver;
  },
});
