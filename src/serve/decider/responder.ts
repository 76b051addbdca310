import { monotonicMs } from '../../base/clock.ts';
import type { GrpcServerOptions, OnCallFinished } from '../../edge/grpc/grpc-server.ts';
import type { OfferedService } from '../../edge/http/api.ts';
import { openOverload } from '../../edge/overload/overload.ts';
import { createCountLate } from '../../edge/rls/count-late.ts';
import { Health } from '../../edge/rls/health.ts';
import {
  type Caller,
  createAnswerKnown,
  createRlsService,
  INTERNAL_ERROR,
  type MissedBy,
  type Observer,
} from '../../edge/rls/service.ts';
import type { WireRequest } from '../../edge/wire/wire.ts';
import { createStopwatch } from '../../engine/backends/lateness.ts';
import { awaitReady } from '../../engine/backends/within.ts';
import { findCounter } from '../../engine/decide/counter-key.ts';
import { type Answer, type Decider, InvalidRequest } from '../../engine/decide/decide.ts';
import { createAgent } from '../../operate/admin/agent.ts';
import { readFigures } from '../../operate/observe/figures.ts';
import { undecidedBy } from '../../operate/observe/stats.ts';
import { createStoreMeter } from '../../operate/observe/store-meter.ts';
import type { ReportedFigures } from '../../operate/observe/table.ts';
import { offerServices } from '../../parts/parts.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ProcessContext } from '../parts/process-context.ts';
import { openParts } from '../parts/start-up.ts';
import type { DeciderCore } from './core.ts';
import type { Watch } from './part.ts';
import { type Observed, openDeciderParts } from './parts.ts';
import type { ServiceObserver } from './reporter.ts';
import { openCallerServers, type Servers } from './servers.ts';
import { scratchRules, warmUp } from './warm-up.ts';

/** Opens everything that answers requests in this process, except the servers. */
export function openResponder(settings: Settings, { core, serviceObserver }: Observed, context: ProcessContext) {
  const { store, extras } = core;
  return openParts(async (add) => {
    const parts = add(await openDeciderParts(settings, { core, serviceObserver }, context));
    const { watched, decider, watch } = parts;
    const agent = createAgent({
      overrides: core.decider.overrides,
      askPart: (name, question) => parts.opened.get(name)?.asked?.(question as never), // asked by the same part
      records: store.records,
    });
    const delayed = { count: 0 };
    const noted = { serviceObserver, watch };
    const observer = createObserver(noted, parts.observers, context);
    const late = { countLate: createCountLate(watched), answerKnown: createAnswerKnown(decider, extras, observer) };
    const overload = add(openOverload({ ...settings.overload, ...late, onMissed: noteMissed(noted) }));
    const running = { observer, isBehind: () => overload.queue.isBehind };
    const service = overload.counting(parts.service(createRlsService(decider, extras, observer, delayed)));
    const health = new Health(() => core.readiness.state());
    return {
      /** Serves operators. */
      agent,
      figures: (): ReportedFigures =>
        readFigures({ ledger: store.ledger, memory: store.memory, overload, delayed, health, quotas: parts.quotas }),
      /** Exchanges with other sites; undefined if this is the only one. */
      sites: parts.sites,
      /** Opens the servers. @throws CannotStart if an address cannot be bound, or certificates cannot be used */
      async listen(onCallFinished: OnCallFinished): Promise<Servers> {
        await awaitReady(store.ledger);
        await core.shareHashKey();
        await warmWith(settings, { core, noted, overload, health, onCallFinished, decider }, context);
        for (const part of parts.opened.values()) part.start?.(running);
        observeLapses(core, noted);
        if (!store.memory)
          store.ledger.meterWith(
            createStoreMeter(serviceObserver.storeCalled, createStopwatch(monotonicMs, store.lateness)),
          );
        const onConnectionError = (code: string) => serviceObserver.connectionFailed(code);
        const deciding = {
          decider: { ...watched, onWork: overload.queue.spend },
          onCommit: (domain: string) => watch?.committed(domain),
          extras,
          offered: () => others.flatMap(({ paths }) => paths),
        };
        const others: readonly OfferedService[] = [...parts.offers, ...offerServices(deciding)];
        const handlers = { service, overload, health, others, wrapPages: parts.pages };
        return openCallerServers(settings, { core, ...handlers, onCallFinished, onConnectionError }, context);
      },
    };
  });
}

/** Reports reservations that lapse; those that no request notices are counted, too. */
function observeLapses({ store, decider }: DeciderCore, { serviceObserver, watch }: Noted): void {
  store.ledger.lapses?.listen((lapse) => {
    const rules = decider.rules();
    const counter = rules && findCounter(rules, lapse.key, decider);
    if (!counter) return;
    if (lapse.isUnnoticed) serviceObserver.lapsed(counter, lapse.hits);
    watch?.lapsed(counter, lapse);
  });
}

interface Warming extends Pick<GrpcServerOptions, 'overload' | 'health' | 'onCallFinished'> {
  readonly core: DeciderCore;
  readonly noted: Noted;
  readonly decider: Decider;
}

/** Warms up with requests of other rules that are noted, and then forgotten; they are no usage. */
async function warmWith(
  { grpc }: Settings,
  { core, noted, decider, overload, ...handlers }: Warming,
  context: ProcessContext,
): Promise<void> {
  const services = [scratchRules(), scratchRules()].map((tree) => {
    const scratch = { ...decider, metersUsage: false, rules: () => tree };
    const observer = { answered: notePlainly(noted), failed: () => {} };
    return overload.counting(createRlsService(scratch, core.extras, observer));
  });
  await noted.serviceObserver.ignore(() => warmUp(grpc.transport, { services, overload, ...handlers }, context));
  noted.watch?.clear();
  const { refusals } = core.store.ledger;
  refusals?.clear();
  refusals?.resetCounts();
}

/** What is notified of requests. */
interface Noted {
  readonly serviceObserver: ServiceObserver;
  readonly watch: Watch | undefined;
}

/** Notifies all observers of answers. @param more  those of optional capabilities */
function createObserver(
  noted: Noted,
  more: readonly Observer['answered'][],
  { log }: Pick<ProcessContext, 'log'>,
): Observer {
  const { serviceObserver, watch } = noted;
  const answered = notePlainly(noted);
  return {
    answered:
      more.length > 0
        ? (request, answer, caller) => {
            answered(request, answer, caller);
            for (const note of more) note(request, answer, caller);
          }
        : answered,
    failed({ details }, cause, call) {
      serviceObserver.failed(cause);
      if (cause instanceof InvalidRequest && call) watch?.invalid(call.request, call.caller);
      else watch?.undecided(undecidedBy(cause), call?.caller);
      if (details === INTERNAL_ERROR) log.error({ err: cause }, 'a request failed because of a bug');
      else log.debug(`a request failed: ${details}`);
    },
  };
}

/** Notes answers for statistics, and for a part that watches requests. */
const notePlainly =
  ({ serviceObserver, watch }: Noted): Observer['answered'] =>
  (request: WireRequest, answer: Answer, caller: Caller) => {
    serviceObserver.answered(request.domain, answer);
    watch?.answered(request, answer, caller);
  };

const noteMissed =
  ({ serviceObserver, watch }: Noted) =>
  (by: MissedBy, caller?: Pick<Caller, 'header' | 'connection'>): void => {
    serviceObserver.missed(by);
    watch?.undecided(by, caller);
  };
