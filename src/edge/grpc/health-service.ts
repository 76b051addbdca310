import { status } from '../../h2/grpc/grpc-status.ts';
import type { Method } from '../../h2/grpc/method.ts';
import type { Health } from '../rls/health.ts';
import {
  type HealthCheckRequest,
  type HealthCheckResponse,
  type HealthListResponse,
  readCheckRequest,
  readListRequest,
  writeCheckResponse,
  writeListResponse,
} from '../rls/health-messages.ts';
import type { OnCallFinished } from './grpc-server.ts';

const pathOf = (name: string): string => `/grpc.health.v1.Health/${name}`;

/**
 * `grpc.health.v1.Health`.
 *
 * @see https://github.com/grpc/grpc/blob/master/doc/health-checking.md
 */
export function healthMethods(health: Health, onCallFinished: OnCallFinished | undefined): readonly Method[] {
  const check: Method<HealthCheckRequest, HealthCheckResponse> = {
    kind: 'unary',
    path: pathOf('Check'),
    decode: readCheckRequest,
    encode: writeCheckResponse,
    handle({ service }, call) {
      const startedMs = performance.now();
      const found = health.status(service);
      if (found) {
        call.send({ status: found });
        call.end();
      } else call.fail(status.NOT_FOUND, 'unknown service');
      onCallFinished?.('Check', found ? status.OK : status.NOT_FOUND, performance.now() - startedMs);
    },
  };
  const list: Method<object, HealthListResponse> = {
    kind: 'unary',
    path: pathOf('List'),
    decode: readListRequest,
    encode: writeListResponse,
    handle(_request, call) {
      const statuses = Array.from(health.statuses(), ([name, found]) => [name, { status: found }] as const);
      call.send({ statuses: Object.fromEntries(statuses) });
      call.end();
    },
  };
  const watch: Method<HealthCheckRequest, HealthCheckResponse> = {
    kind: 'server stream',
    path: pathOf('Watch'),
    decode: readCheckRequest,
    encode: writeCheckResponse,
    handle({ service }, call) {
      call.onGone(health.watch(service, (now) => call.send({ status: now })));
    },
  };
  return [check, list, watch];
}
