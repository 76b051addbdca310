import { readFileSync } from 'node:fs';
import { packageRoot } from '../../base/package-root.ts';
import type { Method } from '../../h2/grpc/method.ts';
import {
  ReflectionAnswers,
  type ReflectionRequest,
  type ReflectionResponse,
  readReflectionRequest,
  writeReflectionResponse,
} from '../rls/reflection.ts';

/** 12 kilobytes, written by `npm run descriptors`. */
const DESCRIPTORS = new URL('proto/descriptors.binpb', packageRoot);

const QUOTAS_PACKAGE = 'envoy.service.rate_limit_quota.v3';

/** How long a stream stays open after its client's last message, before it ends with OK. */
export const MAX_SILENCE_MS = 60_000;

/** Options of the reflection service. */
interface ReflectionOptions {
  /** One path per version. */
  readonly paths: readonly string[];
  /** Default: Node's timers. */
  readonly startTimer?: StartTimer | undefined;
  readonly hasQuotas: boolean;
}

/** The reflection service, in each version. */
export function reflectionMethods({ paths, startTimer, hasQuotas }: ReflectionOptions): readonly Method[] {
  const answers = new ReflectionAnswers(readFileSync(DESCRIPTORS), hasQuotas ? undefined : QUOTAS_PACKAGE);
  return paths.map((path) => reflectionMethod(path, answers, startTimer));
}

/** Ends a call if its client is silent for too long: clients may never close a stream after their last request. */
const reflectionMethod = (
  path: string,
  answers: ReflectionAnswers,
  startTimer: StartTimer = startNodeTimer,
): Method<ReflectionRequest, ReflectionResponse> => ({
  kind: 'bidi stream',
  path,
  decode: readReflectionRequest,
  encode: writeReflectionResponse,
  handle(call) {
    const timer = startTimer(MAX_SILENCE_MS, () => call.end());
    call.onGone(() => timer.stop());
    return {
      message(request) {
        timer.restart();
        call.send({ request, answer: answers.to(request.question) });
      },
      end() {
        timer.stop();
        call.end();
      },
    };
  },
});

/** A one-shot timer. */
interface Timer {
  /** Restarts the full time. */
  restart(): void;
  stop(): void;
}

/** @param onElapsed  called after `ms`, unless stopped */
export type StartTimer = (ms: number, onElapsed: () => void) => Timer;

/** Node's timers, which do not keep the process alive. */
const startNodeTimer: StartTimer = (ms, onElapsed) => {
  const timeout = setTimeout(onElapsed, ms).unref();
  return { restart: () => void timeout.refresh(), stop: () => clearTimeout(timeout) };
};
