import { debugRoutes } from '../http/debug.ts';
import { profileRoutes } from '../http/profile.ts';
import type { Logger } from '../observe/log.ts';
import { createMetrics, type StoreGauges } from '../observe/prometheus.ts';
import { referenceCounters } from '../observe/reference-names.ts';
import type { ServiceGauges } from '../observe/service-gauges.ts';
import type { Settings } from '../settings.ts';
import type { OnCall } from '../transport/grpc-server.ts';
import type { Basis } from './basis.ts';
import { at, openHttp } from './http.ts';
import { createParts, type Part } from './parts.ts';
import { type Numbers, openSink } from './sinks.ts';

/** What operators see: pages on the debug port, and statistics where they are sent. */
export interface View extends Part {
  /** Where the debug port is. */
  readonly debug: string;
  /** One call of gRPC. */
  readonly called: OnCall;
}

/** @throws CannotStart  DEBUG_PORT or PROMETHEUS_ADDR cannot be bound */
export async function openView(
  settings: Settings,
  { rules, readiness }: Pick<Basis, 'rules' | 'readiness'>,
  numbers: Numbers & StoreGauges,
  service: ServiceGauges,
  log: Logger,
): Promise<View> {
  const { statistics, gauges, refresh } = numbers;
  const metrics = createMetrics(statistics, () => readiness().ready, numbers, service);
  const parts = createParts();
  try {
    const sink = parts.add(await openSink(settings, numbers, log));
    const pages = debugRoutes(
      {
        rules: rules.book.rules,
        lastLoad: rules.lastLoad,
        async metrics(format) {
          await refresh();
          return metrics.render(format);
        },
        async statistics() {
          await refresh();
          return joined(await referenceCounters(statistics), gauges());
        },
      },
      profileRoutes(settings.ADMIN_TOKEN),
    );
    const address = { host: settings.DEBUG_HOST, port: settings.DEBUG_PORT };
    const debug = await openHttp('DEBUG_PORT', address, pages, log);
    parts.add({ close: () => debug.close(0) });
    return {
      debug: at({ ...address, port: debug.port }),
      called(method, status, elapsedMs) {
        metrics.called(method, status, elapsedMs);
        sink.called(method, elapsedMs);
      },
      close: parts.close,
    };
  } catch (error) {
    await parts.close();
    throw error;
  }
}

function* joined<T>(one: Iterable<T>, other: Iterable<T>): Iterable<T> {
  yield* one;
  yield* other;
}
