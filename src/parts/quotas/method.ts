import { methodPaths, type SideService } from '../../edge/grpc/side-service.ts';
import type { Overload } from '../../edge/overload/overload.ts';
import { PROXY_HEADER } from '../../edge/wire/wire.ts';
import { MAX_REQUEST_BYTES } from '../../h2/grpc/message-reader.ts';
import type { Method, MethodLimits } from '../../h2/grpc/method.ts';
import { type BucketAction, writeBucketActions } from './messages.ts';
import type { QuotaService } from './quota-service.ts';

/** Limits for reports that name all buckets of a proxy in one message, as the first answer may do too. */
const quotaLimits: MethodLimits = {
  maxMessageBytes: MAX_REQUEST_BYTES,
  maxUnreadBytes: 2 * MAX_REQUEST_BYTES,
  maxUnreadMessages: 256,
  maxEarlyMessages: Number.POSITIVE_INFINITY,
};

/** Called when the call is over. */
const nothingFollows = { message: () => {}, end: () => {} };

const paths = methodPaths('envoy.service.rate_limit_quota.v3.RateLimitQuotaService', ['StreamRateLimitQuotas']);

/**
 * `envoy.service.rate_limit_quota.v3.RateLimitQuotaService`. A stream is refused at the limit on calls in flight, and
 * reports are handled in slices.
 */
export const quotasService = (quotas: QuotaService): SideService => ({
  paths,
  needsH2: true,
  load: async (overload) => paths.map((path) => quotasMethod(path, quotas, overload)),
  close: () => quotas.close(),
});

const quotasMethod = (
  path: string,
  quotas: QuotaService,
  overload: Overload,
): Method<Buffer, readonly BucketAction[]> => ({
  kind: 'bidi stream',
  path,
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
