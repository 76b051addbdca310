import type { handleBidiStreamingCall, ServerDuplexStream, UntypedServiceImplementation } from '@grpc/grpc-js';
import type { HostedControls, HostedLimits } from '../../h2/grpc/method-call.ts';
import type { Overload } from '../overload/overload.ts';
import { type BucketAction, writeBucketActions } from '../rlqs/messages.ts';
import { PROXY_HEADER, type QuotaService } from '../rlqs/quota-service.ts';
import { MAX_REQUEST_BYTES } from './grpc-server.ts';
import { whenGone } from './when-gone.ts';

/** A report names all buckets of a proxy in one message; the first answer may do so, too. */
export const quotaLimits: HostedLimits = {
  maxMessageBytes: MAX_REQUEST_BYTES,
  maxUnreadBytes: 2 * MAX_REQUEST_BYTES,
  maxUnreadMessages: 256,
  hasControls: true,
  isSliced: true,
};

const notServed = (): never => {
  throw new TypeError('StreamRateLimitQuotas is only served here');
};

/** `envoy.service.rate_limit_quota.v3.RateLimitQuotaService`, for servers. */
export const quotaMethods = {
  StreamRateLimitQuotas: {
    path: '/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas',
    ...{ requestStream: true, responseStream: true },
    ...{ requestDeserialize: (bytes: Buffer) => bytes, responseSerialize: writeBucketActions },
    ...{ requestSerialize: notServed, responseDeserialize: notServed },
  },
};

/** The handlers of the service. With too many calls in flight, a stream is refused. Reports are handled in slices. */
export function quotaHandlers(quotas: QuotaService, overload: Overload): UntypedServiceImplementation {
  const StreamRateLimitQuotas: handleBidiStreamingCall<Buffer, readonly BucketAction[]> = (call) => {
    const { controls } = call as ServerDuplexStream<Buffer, readonly BucketAction[]> & {
      readonly controls: HostedControls; // h2 hosts it
    };
    const refusal = overload.refusal();
    if (refusal) return controls.fail(refusal.code, refusal.details);
    const receiver = quotas.open({
      name: controls.header(PROXY_HEADER),
      write: (actions) => void call.write(actions),
      charge: controls.charge,
      fail: controls.fail,
      end: () => call.end(),
    });
    call.on('data', (bytes) => receiver.report(bytes));
    call.once('end', () => {
      receiver.close();
      call.end();
    });
    whenGone(call, () => receiver.close());
  };
  return { StreamRateLimitQuotas };
}
