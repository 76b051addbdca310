import { readFileSync } from 'node:fs';
import type { handleBidiStreamingCall, Server } from '@grpc/grpc-js';
import { packageRoot } from '../../base/package-root.ts';
import { sideLimits } from '../../h2/grpc/method.ts';
import type { StartTimer } from '../../h2/listen/timer.ts';
import {
  ReflectionAnswers,
  type ReflectionRequest,
  type ReflectionResponse,
  reflectionService,
} from '../rls/reflection.ts';
import { whenGone } from './when-gone.ts';

/** 12 kilobytes, written by `npm run descriptors`. */
const DESCRIPTORS = new URL('proto/descriptors.binpb', packageRoot);

const QUOTAS_PACKAGE = 'envoy.service.rate_limit_quota.v3';

/** Options of the reflection service. */
interface ReflectionOptions {
  /** One path per version. */
  readonly paths: readonly string[];
  readonly startTimer: StartTimer;
  readonly hasQuotas: boolean;
}

/** Adds the reflection service. */
export function serveReflection(
  host: Pick<Server, 'addService'>,
  { paths, startTimer, hasQuotas }: ReflectionOptions,
): void {
  const answers = new ReflectionAnswers(readFileSync(DESCRIPTORS), hasQuotas ? undefined : QUOTAS_PACKAGE);
  const handler = answerQuestions(answers, startTimer);
  for (const path of paths) host.addService(reflectionService(path), { ServerReflectionInfo: handler });
}

/**
 * Ends a call with OK if its client is silent for too long: clients may never close a stream after their last request.
 * Pauses a call whose client does not read its answers, which only grpc-js needs: a `HostedCall` bounds its output
 * itself and needs no pause.
 */
const answerQuestions =
  (
    answers: ReflectionAnswers,
    startTimer: StartTimer,
  ): handleBidiStreamingCall<ReflectionRequest, ReflectionResponse> =>
  (call) => {
    const timer = startTimer(sideLimits.maxSilenceMs, () => call.end());
    call.on('data', (request: ReflectionRequest) => {
      timer.restart();
      call.write({ request, answer: answers.to(request.question) });
      if (!call.writableNeedDrain) return;
      call.pause();
      call.once('drain', () => call.resume());
    });
    call.once('end', () => {
      timer.stop();
      call.end();
    });
    whenGone(call, () => timer.stop());
  };
